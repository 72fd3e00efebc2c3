# SPDX-License-Identifier: Apache-2.0
"""Speaks HTTPS with itself on connections that end, for the kernel, before the response is read: the client half-closes, or the server
resets. Prints how many responses the client has read."""
import fcntl
import os
import select
import socket
import ssl
import struct
import sys
import termios
import threading
import time

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REFUSED = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"


def unread(connection):
    return struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.FIONREAD, bytes(4)))[0]


def serve(listener, context):
    while True:
        plain, _ = listener.accept()
        connection = context.wrap_socket(plain, server_side=True)
        head = connection.recv(4096)
        if b" /half " in head:
            select.select([connection], [], [])  # until its end
            connection.sendall(OK)
        else:
            while not unread(connection):  # more of the request comes, which is not read
                time.sleep(.001)
            connection.sendall(REFUSED)
        connection.close()


def ask(port, context, way):
    plain = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection = context.wrap_socket(plain)
    connection.sendall(b"POST /%s HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % (way.encode(), 0 if way == "half" else 100000))
    if way == "half":
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            same.shutdown(socket.SHUT_WR)
    else:
        connection.sendall(b"x" * 1000)
    time.sleep(.03)
    read = connection.recv(4096)
    connection.close()
    return read in (OK, REFUSED)


def main(cert, key):
    listener = socket.create_server(("127.0.0.1", 0))
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(cert, key)
    theirs.num_tickets = 0
    threading.Thread(target=serve, args=(listener, theirs), daemon=True).start()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    print("ready", flush=True)
    for line in sys.stdin:
        *ways, times = line.split()
        print(sum(ask(listener.getsockname()[1], context, way) for way in ways for _ in range(int(times))), flush=True)


main(*sys.argv[1:])
