# SPDX-License-Identifier: Apache-2.0
"""A server with a slow, a failing, a packed and a long endpoint; its argument is the port on the loopback device."""

import gzip
import http.server
import sys
import time


class Endpoints(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body, **fields):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        match self.path.partition("?")[0]:
            case "/slow":
                time.sleep(0.3)
                self.answer(200, b"late", Content_Type="text/plain")
            case "/packed":
                self.answer(200, gzip.compress(b'{"says": "packed"}'), Content_Type="application/json", Content_Encoding="gzip")
            case "/long":
                self.answer(200, "".join(f"{n:07}\n" for n in range(0, 300_000, 8)).encode(), Content_Type="text/plain")
            case _:
                self.answer(200, b"at once", Content_Type="text/plain")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(500, b"cannot take " + body, Content_Type="text/plain", Set_Cookie="session=secret")

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Endpoints).serve_forever()
