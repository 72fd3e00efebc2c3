# SPDX-License-Identifier: Apache-2.0
"""A server on a given libssl and libcrypto, of any version of OpenSSL since 1.0.2 and of LibreSSL. It is given both, the files of its
certificate and key and the pause of /slow in ms, and prints its port. It looks with SSL_peek whether there is something to read."""
import ctypes
import socket
import sys
import threading
import time

CRYPTO, SSL, CERT, KEY, PAUSE = sys.argv[1], sys.argv[2], sys.argv[3].encode(), sys.argv[4].encode(), int(sys.argv[5]) / 1000
PEM, SET_ECDH_AUTO = 1, 94

crypto = ctypes.CDLL(CRYPTO, mode=ctypes.RTLD_GLOBAL)
ssl = ctypes.CDLL(SSL)
if hasattr(ssl, "SSL_library_init"):  # before 1.1.0
    ssl.SSL_library_init()
    method = ssl.SSLv23_server_method
else:
    method = ssl.TLS_server_method
for function in (method, ssl.SSL_CTX_new, ssl.SSL_new):
    function.restype = ctypes.c_void_p
for name in ("SSL_accept", "SSL_shutdown", "SSL_free"):
    getattr(ssl, name).argtypes = [ctypes.c_void_p]
for name in ("SSL_read", "SSL_peek", "SSL_write"):
    getattr(ssl, name).argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
ssl.SSL_CTX_new.argtypes = ssl.SSL_new.argtypes = [ctypes.c_void_p]
ssl.SSL_set_fd.argtypes = [ctypes.c_void_p, ctypes.c_int]
ssl.SSL_CTX_use_certificate_file.argtypes = ssl.SSL_CTX_use_PrivateKey_file.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
ssl.SSL_CTX_ctrl.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p]

context = ssl.SSL_CTX_new(method())
ssl.SSL_CTX_ctrl(context, SET_ECDH_AUTO, 1, None)
if ssl.SSL_CTX_use_certificate_file(context, CERT, PEM) != 1 or ssl.SSL_CTX_use_PrivateKey_file(context, KEY, PEM) != 1:
    sys.exit("the certificate cannot be read")


def serve(connection):
    with connection:
        tls = ssl.SSL_new(context)
        ssl.SSL_set_fd(tls, connection.fileno())
        if ssl.SSL_accept(tls) == 1:
            answer(tls)
            ssl.SSL_shutdown(tls)
        ssl.SSL_free(tls)


def answer(tls):
    buffer, received = ctypes.create_string_buffer(4096), b""
    while ssl.SSL_peek(tls, buffer, len(buffer)) > 0:
        n = ssl.SSL_read(tls, buffer, len(buffer))
        if n <= 0:
            return
        received += buffer.raw[:n]
        while b"\r\n\r\n" in received:
            head, received = received.split(b"\r\n\r\n", 1)
            path = head.split()[1]
            if path == b"/slow":
                time.sleep(PAUSE)
            status = b"200 OK" if path in (b"/here", b"/slow") else b"404 Not Found"
            response = b"HTTP/1.1 " + status + b"\r\nContent-Length: 6\r\n\r\nlibssl"
            if ssl.SSL_write(tls, response, len(response)) != len(response):
                return


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
