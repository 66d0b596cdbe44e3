"""Stands in for a server that an application asks: `python3 -m tools.scenarios.stand_ins KIND HOST PORT [SECONDS]`.

    answer   answers each byte with one byte after SECONDS
    hole     takes no connection: its queue is full, so that the kernel drops whoever connects
    dns      answers each UDP datagram with itself after SECONDS
    backend  answers each line, a number of milliseconds, with one byte after that time. It works on SECONDS requests at
             once, on one of each connection; the others wait, first come, first served

It writes a line once it is ready, and runs until it is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading


def ready() -> None:
    print("ready", flush=True)


async def answer(host: str, port: int, seconds: float) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(1):
                await asyncio.sleep(seconds)
                writer.write(b".")
        writer.close()

    server = await asyncio.start_server(serve, host, port, backlog=256)
    ready()
    await server.serve_forever()


async def backend(host: str, port: int, at_once: float) -> None:
    free = asyncio.Semaphore(round(at_once))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                async with free:
                    await asyncio.sleep(int(line) / 1000)
                writer.write(b".")
        writer.close()

    server = await asyncio.start_server(serve, host, port, backlog=256)
    ready()
    await server.serve_forever()


class Echo(asyncio.DatagramProtocol):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: object) -> None:
        asyncio.get_running_loop().call_later(self.seconds, self.transport.sendto, data, address)  # type: ignore[attr-defined]


async def dns(host: str, port: int, seconds: float) -> None:
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: Echo(seconds), local_addr=(host, port))
    ready()
    await asyncio.Event().wait()


def hole(host: str, port: int) -> None:
    with socket.create_server((host, port), backlog=0), contextlib.ExitStack() as stack:
        for _ in range(4):  # the queue takes one or two
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect((host, port))
        ready()
        threading.Event().wait()


def main(kind: str, host: str, port: str, seconds: str = "0") -> None:
    with contextlib.suppress(KeyboardInterrupt):
        if kind == "hole":
            hole(host, int(port))
        else:
            asyncio.run({"answer": answer, "dns": dns, "backend": backend}[kind](host, int(port), float(seconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
