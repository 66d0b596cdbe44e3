"""Sends logins to an exporter until its input ends.

`python -m tools.bench.hostile.guesser PORT RATE TIMES USER ADDRESSES`
"""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures.thread  # noqa: F401 - now: the other user may not be able to read Python's own files
import contextlib
import os
import sys
import time

_CONNECTIONS = 40


async def guess(port: int, rate: float, times: int, addresses: int) -> None:
    """Send new logins until the end of the input, over many connections, and print how many were answered. addresses:
    of loopback, from which the connections come."""
    sent, number = 0, 0
    began = time.monotonic()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

    async def send(address: str) -> None:
        nonlocal sent, number
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
                while True:
                    number += 1
                    login = base64.b64encode(f"prometheus:{os.getpid()} {number // times}".encode()).decode()
                    await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                    writer.write(f"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {login}\r\n\r\n".encode())
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                    await reader.readexactly(int(length or 0))
                    sent += 1
            await asyncio.sleep(0.1)

    senders = [
        asyncio.create_task(send(f"127.0.0.{1 + which % addresses}")) for which in range(max(_CONNECTIONS, addresses))
    ]
    await ended
    for sender in senders:
        sender.cancel()
    print(sent)


def _main() -> None:
    port, rate, times, user, addresses = sys.argv[1:]
    if int(user) != os.geteuid():
        os.setuid(int(user))
    asyncio.run(guess(int(port), float(rate), int(times), int(addresses)))


if __name__ == "__main__":
    _main()
