"""Clients that each send one request after the other until they are ended."""

from __future__ import annotations

import asyncio
import random
import sys

CHUNK = 64 << 10


async def _client(port: int, plans: list[str], pause: float, slow: float) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=CHUNK)
            writer.write(f"GET /?{random.choice(plans)} HTTP/1.0\r\n\r\n".encode())
            while await reader.read(CHUNK):
                if slow:
                    await asyncio.sleep(slow)
            writer.close()
        except OSError:
            await asyncio.sleep(0.1)
        if pause:
            await asyncio.sleep(random.expovariate(1 / pause))


async def _run(port: int, plans: list[str], clients: int, pause: float, slow: float) -> None:
    await asyncio.gather(*(_client(port, plans, pause, slow) for _ in range(clients)))


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1]), sys.argv[2].split(), int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5])))
