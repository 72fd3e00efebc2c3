# SPDX-License-Identifier: Apache-2.0
"""Python's http.server, with plaintext and through TLS. It is given the files of its certificate and key and the pause of
/slow in ms, and prints both ports."""
import http.server
import ssl
import sys
import threading
import time

CERT, KEY, PAUSE = sys.argv[1], sys.argv[2], int(sys.argv[3]) / 1000


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body would wait for the client to acknowledge the head

    def do_GET(self):
        if self.path == "/slow":
            time.sleep(PAUSE)
        self.send_response(200 if self.path in ("/here", "/slow") else 404)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"python")

    def log_message(self, *args):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(CERT, KEY)
plain, secure = (http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2))
secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
for server in plain, secure:
    threading.Thread(target=server.serve_forever).start()
print(plain.server_port, secure.server_port, flush=True)
