# SPDX-License-Identifier: Apache-2.0
"""Asks by HTTPS through GnuTLS, whose first attempt to send a request fails (EAGAIN): it goes on as the library's manual says, without
saying again what is to be sent. Each line of input is a path to ask for; prints how often it was answered."""
import ctypes
import errno
import os
import socket
import sys

port, times = int(sys.argv[1]), int(sys.argv[2])
try:
    gnutls = ctypes.CDLL("libgnutls.so.30")
except OSError:
    print("none", flush=True)
    sys.exit()
gnutls.gnutls_record_send.restype = gnutls.gnutls_record_recv.restype = ctypes.c_ssize_t
gnutls.gnutls_record_send.argtypes = gnutls.gnutls_record_recv.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
AGAIN, CLIENT, CERTIFICATE = -28, 2, 1
credentials = ctypes.c_void_p()
gnutls.gnutls_certificate_allocate_credentials(ctypes.byref(credentials))


class Connection:
    def __init__(self):
        self.full = False
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.session = ctypes.c_void_p()
        gnutls.gnutls_init(ctypes.byref(self.session), CLIENT)
        gnutls.gnutls_set_default_priority(self.session)
        gnutls.gnutls_credentials_set(self.session, CERTIFICATE, credentials)
        gnutls.gnutls_transport_set_int2(self.session, self.socket.fileno(), self.socket.fileno())
        self.push = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(self.send)
        gnutls.gnutls_transport_set_push_function(self.session, self.push)
        while (result := gnutls.gnutls_handshake(self.session)) < 0:
            assert result == AGAIN, result

    def send(self, _, data, size):
        if self.full:
            gnutls.gnutls_transport_set_errno(self.session, errno.EAGAIN)
            return -1
        return os.write(self.socket.fileno(), ctypes.string_at(data, size))

    def ask(self, path):
        request = b"GET %s HTTP/1.1\r\nHost: here\r\n\r\n" % path
        self.full = True
        assert gnutls.gnutls_record_send(self.session, request, len(request)) == AGAIN
        self.full = False
        assert gnutls.gnutls_record_send(self.session, None, 0) == len(request)
        answer, buffer = b"", ctypes.create_string_buffer(1 << 15)
        while b"\r\n\r\n" not in answer or len(answer.split(b"\r\n\r\n", 1)[1]) < 20000:
            n = gnutls.gnutls_record_recv(self.session, buffer, len(buffer))
            assert n > 0 or n == AGAIN, n
            answer += buffer.raw[:max(n, 0)]
        return True

    def close(self):
        gnutls.gnutls_deinit(self.session)
        self.socket.close()


print("ready", flush=True)
for line in sys.stdin:
    connection = Connection()
    print(sum(connection.ask(line.strip().encode()) for _ in range(times)), flush=True)
    connection.close()
