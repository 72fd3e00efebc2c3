# SPDX-License-Identifier: Apache-2.0
"""Asks by HTTPS, with a TLS library that is loaded (dlopen) when its first line of input comes. Each further line is a path to ask for;
prints how often it was answered."""
import socket
import sys

port, times = int(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
import ssl  # noqa: E402

context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
print("loaded", flush=True)
for line in sys.stdin:
    answered = 0
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as connection:
        answers = connection.makefile("rb")
        for _ in range(times):
            connection.sendall(b"GET %s HTTP/1.1\r\nHost: here\r\n\r\n" % line.strip().encode())
            length = 0
            while field := answers.readline().strip():
                if field.lower().startswith(b"content-length:"):
                    length = int(field.split(b":")[1])
            answered += len(answers.read(length)) == length > 0
    print(answered, flush=True)
