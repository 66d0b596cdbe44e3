"""The load of a scenario: asyncio clients in a process of their own, bounded, and what they experienced.

`python3 -m tools.scenarios.loads JSON` loads an address until its standard input ends, then prints its tally.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from tests.support.real_uwsgi import ROOT
from tools.scenarios.scenario import Load

RETRY = 0.05
"""Seconds after which a closed-loop client that was refused asks again."""


@dataclass
class Tally:
    """What clients experienced. refused: no connection; failed: no answer, or one of status 500 and above; left_out:
    arrivals beyond `most` in flight."""

    answered: int = 0
    refused: int = 0
    failed: int = 0
    left_out: int = 0
    seconds: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        """Counts, and the mean and longest time of an answer in seconds."""
        mean = sum(self.seconds) / len(self.seconds) if self.seconds else 0.0
        counts = {name: getattr(self, name) for name in ("answered", "refused", "failed", "left_out")}
        return counts | {"mean": mean, "longest": max(self.seconds, default=0.0)}


async def ask(load: Load, address: str | tuple[str, int], tally: Tally) -> bool:
    """Make one request and count it. Returns whether it was answered. A client waits for as long as the load runs."""
    start = time.monotonic()
    try:
        reader, writer = await _connect(address)
    except OSError:
        tally.refused += 1
        return False
    try:
        separator = "&" if "?" in load.path else "?"
        path = f"{load.path}{separator}io_ms={load.io_ms:g}&cpu_ms={load.cpu_ms:g}"
        writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        answer = await reader.read(-1)
    except OSError:
        answer = b""
    finally:
        writer.close()
    if not answer or answer.split(b" ", 2)[1] >= b"500":
        tally.failed += 1
        return False
    tally.answered += 1
    tally.seconds.append(time.monotonic() - start)
    return True


async def _connect(address: str | tuple[str, int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect at once or not at all to a UNIX socket, as web servers do: where its queue is full, connect(2) fails with
    EAGAIN, which asyncio would take for "in progress"."""
    if isinstance(address, tuple):
        return await asyncio.open_connection(*address)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.setblocking(False)
        connection.connect(address)  # it does not block
    except OSError:
        connection.close()
        raise
    return await asyncio.open_unix_connection(sock=connection)


async def arrive(load: Load, address: str | tuple[str, int], tally: Tally) -> None:
    """Open loop: requests arrive at `rate` whatever becomes of those before, as evenly as chance lets them."""
    chance, tasks, loop = random.Random(1), set[asyncio.Task[bool]](), asyncio.get_running_loop()
    await asyncio.sleep(load.start)
    due = loop.time()
    arrivals = 0
    while not load.requests or arrivals < load.requests:
        due += (0.5 + chance.random()) / load.rate
        await asyncio.sleep(max(0.0, due - loop.time()))
        arrivals += 1
        if len(tasks) >= load.most:
            tally.left_out += 1
            continue
        task = asyncio.create_task(ask(load, address, tally))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


async def repeat(load: Load, address: str | tuple[str, int], tally: Tally) -> None:
    """Closed loop: one client asks, thinks, and asks again."""
    await asyncio.sleep(load.start)
    made = 0
    while not load.requests or made < load.requests:
        made += 1
        answered = await ask(load, address, tally)
        await asyncio.sleep(load.think_ms / 1000 if answered else RETRY)


async def run(loads: list[tuple[Load, str | tuple[str, int]]]) -> Tally:
    """Load until standard input ends."""
    tally = Tally()
    tasks = []
    for load, address in loads:
        clients = [repeat(load, address, tally) for _ in range(load.clients)] or [arrive(load, address, tally)]
        tasks += [asyncio.create_task(client) for client in clients]
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    waiting = threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(ended.set)), daemon=True)
    waiting.start()
    await ended.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return tally


class Running:
    """A load that runs. `tally` is empty until it has ended."""

    def __init__(self) -> None:
        self.tally: dict[str, float] = {}


@contextlib.contextmanager
def running(loads: list[tuple[Load, str | tuple[str, int]]]) -> Iterator[Running]:
    """Load addresses while the block runs."""
    load = Running()
    if not loads:
        yield load
        return
    order = json.dumps([[asdict(each), address] for each, address in loads])
    command = [sys.executable, "-m", "tools.scenarios.loads", order]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield load
        output, _ = process.communicate(timeout=20)
        load.tally = json.loads(output)
    finally:
        process.kill()
        process.wait()


def main() -> None:
    order = json.loads(sys.argv[1])
    loads = [(Load(**load), address if isinstance(address, str) else tuple(address)) for load, address in order]
    print(json.dumps(asyncio.run(run(loads)).summary()))


if __name__ == "__main__":
    main()
