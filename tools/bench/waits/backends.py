"""Two backends in one process: each query is a number of seconds, and its answer, after that time, the time of it."""

from __future__ import annotations

import asyncio
import struct
import sys
import time


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while query := await reader.read(8):
            await asyncio.sleep(struct.unpack("d", query)[0])
            writer.write(struct.pack("d", time.monotonic()))
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def _run(ports: list[int]) -> None:
    servers = [await asyncio.start_server(_serve, "127.0.0.1", port, backlog=256) for port in ports]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(_run([int(port) for port in sys.argv[1:]]))
