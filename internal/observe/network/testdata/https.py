# SPDX-License-Identifier: Apache-2.0
"""Speaks HTTPS by Python's own libraries: a server that lets OpenSSL use the socket, one that has it work on memory
(asyncio), and clients of both kinds. Prints what a client has counted itself. The path /never is not answered: clients
give up."""
import asyncio
import http.client
import http.server
import ssl
import sys
import time

BODY = b"x" * 20000
NEVER, PATIENCE = "/never", 0.1


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the second write of a response waits 40 ms for the acknowledgement of the first

    def do_GET(self):
        if self.path == NEVER:
            time.sleep(3600)
        self.send_response(404 if self.path == "/absent" else 200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *args):
        pass


async def answer(reader, writer):
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            if b" /never " in head:
                await asyncio.sleep(3600)
            status = b"404 Not Found" if b" /absent " in head else b"200 OK"
            last = b" /last " in head  # a body that ends with the connection
            length = b"" if last else b"Content-Length: %d\r\n" % len(BODY)
            writer.write(b"HTTP/1.1 %s\r\n%s\r\n" % (status, length) + BODY)
            await writer.drain()
            if last:
                return writer.close()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve_async(context):
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def ask_async(port, context, paths, times):
    """Has a connection for each path, all at once."""
    async def give_up():
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"GET /never HTTP/1.1\r\nHost: here\r\n\r\n")
        try:
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        except asyncio.TimeoutError:
            writer.transport.abort()
            return 1
        return 0

    async def ask(path):
        if path == NEVER:
            return sum([await give_up() for _ in range(times)])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        counted = 0
        for _ in range(times):
            writer.write(b"GET %s HTTP/1.1\r\nHost: here\r\n\r\n" % path.encode())
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(len(BODY))
            counted += head.startswith(b"HTTP/1.1 ")
        writer.close()
        return counted
    return sum(await asyncio.gather(*(ask(path) for path in paths)))


def give_up(port, context):
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
    connection.connect()
    connection.sock.settimeout(PATIENCE)
    connection.request("GET", NEVER)
    try:
        connection.getresponse()
    except TimeoutError:
        return 1
    finally:
        connection.close()
    return 0


def ask(port, context, paths, times):
    counted = 0
    for path in paths:
        if path == NEVER:
            counted += sum(give_up(port, context) for _ in range(times))
            continue
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context)
        for _ in range(times):
            connection.request("GET", path)
            response = connection.getresponse()
            counted += len(response.read()) == len(BODY)
        connection.close()
    return counted


def main(what, *rest):
    if what.startswith("server"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(rest[0], rest[1])
        if what == "server-memory":
            return asyncio.run(serve_async(context))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        print(server.server_port, flush=True)
        return server.serve_forever()
    port, times = int(rest[0]), int(rest[1])
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    print("ready", flush=True)
    for line in sys.stdin:
        paths = line.split()
        counted = asyncio.run(ask_async(port, context, paths, times)) if what == "client-memory" else ask(port, context, paths, times)
        print(counted, flush=True)


main(*sys.argv[1:])
