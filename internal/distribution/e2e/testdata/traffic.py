#!/usr/bin/env python3
"""Programs that Prometheus is to show something of; each knows what it did. Those that run until they are killed print "ready" when others may begin.

  server ADDRESS PORT            answers HTTP, with a process for each connection: /orders after 50 ms, /broken with 500
  client ADDRESS PORT SECONDS    asks for /orders and /broken, each by a connection of its own; prints how often
  names ADDRESS PORT             answers lookups of good.test; others do not exist
  lookup ADDRESS PORT SECONDS    looks up good.test and bad.test; prints how often
  replay-server ADDRESS PORT IN OUT   reads as many bytes as the file IN has, and sends the file OUT
  replay-client ADDRESS PORT OUT IN   the other way round, until it is killed
  burn SECONDS                   keeps a CPU busy
"""
import http.client
import http.server
import os
import socket
import socketserver
import struct
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/orders":
            time.sleep(0.05)
        self.send_response(200 if self.path == "/orders" else 500)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *args):
        pass


class Forking(socketserver.ForkingMixIn, http.server.HTTPServer):
    pass


def server(address, port):
    listening = Forking((address, int(port)), Handler)
    print("ready", flush=True)
    listening.serve_forever()


def client(address, port, seconds):
    end, asked = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        for path in ("/orders", "/broken"):
            connection = http.client.HTTPConnection(address, int(port))
            connection.request("GET", path)
            connection.getresponse().read()
            connection.close()
        asked += 1
        time.sleep(0.05)
    print(asked, flush=True)


def names(address, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((address, int(port)))
    print("ready", flush=True)
    while True:
        query, who = s.recvfrom(512)
        good = b"\x04good" in query
        header = query[:2] + struct.pack(">HHHHH", 0x8180 if good else 0x8183, 1, int(good), 0, 0)
        answer = b"\xc0\x0c" + struct.pack(">HHIH4s", 1, 1, 60, 4, bytes([192, 0, 2, 1])) if good else b""
        s.sendto(header + query[12:] + answer, who)


def lookup(address, port, seconds):
    end, asked = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        for name in (b"good", b"bad"):
            asked += 1
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.settimeout(2)
            s.connect((address, int(port)))
            s.send(struct.pack(">HHHHHH", asked & 0xFFFF, 0x100, 1, 0, 0, 0) + bytes([len(name)]) + name + b"\x04test\0" + struct.pack(">HH", 1, 1))
            s.recv(512)
            s.close()
        time.sleep(0.1)
    print(asked // 2, flush=True)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def receive(s, size):
    while size > 0:
        data = s.recv(size)
        if not data:
            return
        size -= len(data)


def replay_server(address, port, theirs, ours):
    size, answer = len(content(theirs)), content(ours)
    with socket.create_server((address, int(port))) as listening:
        print("ready", flush=True)
        while True:
            s, _ = listening.accept()
            receive(s, size)
            s.sendall(answer)
            s.close()


def replay_client(address, port, ours, theirs):
    question, size = content(ours), len(content(theirs))
    print("ready", flush=True)
    while True:
        with socket.create_connection((address, int(port))) as s:
            s.sendall(question)
            receive(s, size)
        time.sleep(0.1)


def burn(seconds):
    print("ready", flush=True)
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        pass


globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
