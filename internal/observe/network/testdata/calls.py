# SPDX-License-Identifier: Apache-2.0
"""Calls by gRPC, by its C core: a server, which prints its port, and a client, which is given that and how often to
make each call of a line (service.method names). Prints how many calls ended as they should."""
import sys
from concurrent import futures

import grpc

SERVICE = "shop.Orders"
MESSAGE = b"m" * 300


def get(request, context):
    return request


def fail(request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, "no such order")


def break_down(request, context):
    context.abort(grpc.StatusCode.INTERNAL, "broken")


def watch(request, context):
    for _ in range(10):
        yield request


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(4))
    handlers = {name: grpc.unary_unary_rpc_method_handler(of) for name, of in (("Get", get), ("Fail", fail), ("Break", break_down))}
    handlers["Watch"] = grpc.unary_stream_rpc_method_handler(watch)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


def call(channel, name):
    path = f"/{SERVICE}/{name}"
    if name == "Watch":
        return sum(1 for _ in channel.unary_stream(path)(MESSAGE)) == 10
    try:
        return channel.unary_unary(path)(MESSAGE) == MESSAGE
    except grpc.RpcError as error:
        wanted = {"Fail": grpc.StatusCode.NOT_FOUND, "Break": grpc.StatusCode.INTERNAL}
        return error.code() == wanted.get(name)


def ask(port, times):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        grpc.channel_ready_future(channel).result(timeout=60)
        print("ready", flush=True)
        for line in sys.stdin:
            print(sum(call(channel, name) for name in line.split() for _ in range(times)), flush=True)


if sys.argv[1] == "server":
    serve()
else:
    ask(sys.argv[2], int(sys.argv[3]))
