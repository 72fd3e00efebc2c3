# SPDX-License-Identifier: Apache-2.0
"""What uvicorn and hypercorn serve. The pause of /slow, in ms, and the file of their log are in the environment. As a program it has hypercorn serve in this process and
not in a child: at an address with plaintext, and at one through TLS with the files of its certificate and key."""
import asyncio
import os
import sys
import time

PAUSE = int(os.environ["PAUSE"]) / 1000
LOG = open(os.environ["LOG"], "a", buffering=1)


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    began = time.monotonic()
    if scope["path"] == "/slow":
        await asyncio.sleep(PAUSE)
    status = 200 if scope["path"] in ("/here", "/slow") else 404
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"asgi"})
    print(scope["server"][1], scope["path"], status, int((time.monotonic() - began) * 1e6), file=LOG)


if __name__ == "__main__":
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.loglevel = "CRITICAL"
    config.insecure_bind, config.bind = [sys.argv[1]], [sys.argv[2]]
    config.certfile, config.keyfile = sys.argv[3:5]
    asyncio.run(serve(app, config))
