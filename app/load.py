"""Requests for a uWSGI: what a load is, and asyncio clients that make its requests and count the answers.

The scenes of the demo and the scenarios of `tools` declare loads of this kind. For measurements use a real load
generator. This one needs nothing but Python, and keeps the number of requests in flight bounded.

`python3 -m app.load JSON` makes the requests until its time is over. JSON is a list of pairs: the fields of a load, and
the address, which is the path of a UNIX socket or a list of host and port.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import random
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields

RETRY = 0.05
"""Seconds after which a closed-loop client that was refused asks again."""

Address = str | tuple[str, int]
"""Path of a UNIX socket, or host and port."""


@dataclass(frozen=True)
class Load:
    """Requests of one kind. Either `rate` or `clients` says how many.

    rate: arrivals a second that wait for no answer (open loop); most: requests in flight from which an arrival is left
    out, so that an overload stays bounded. clients: how many ask again when they have their answer (closed loop), after
    `think_ms`; fewest: with `period`, the number of clients swings between this and `clients` in so many seconds.
    io_ms, cpu_ms: what the application is asked to do; each request draws both from this range: `spread` above and
    below. requests: how many each client makes, or arrivals in all; 0 for no limit. start: seconds after the load
    begins. socket: the name of the server's socket that the requests go to.
    """

    rate: float = 0.0
    clients: int = 0
    fewest: int = 0
    period: float = 0.0
    io_ms: float = 0.0
    cpu_ms: float = 0.0
    spread: float = 0.0
    think_ms: float = 0.0
    path: str = "/"
    requests: int = 0
    start: float = 0.0
    most: int = 200
    socket: str = "web"


@dataclass
class Tally:
    """What clients experienced. refused: no connection; failed: no answer, or one of status 500 and above; left_out:
    arrivals beyond `most` in flight; total, longest: seconds of the answered requests."""

    answered: int = 0
    refused: int = 0
    failed: int = 0
    left_out: int = 0
    total: float = 0.0
    longest: float = 0.0

    def summary(self) -> dict[str, float]:
        """Counts, and the mean and longest time of an answer in seconds."""
        mean = self.total / self.answered if self.answered else 0.0
        counts = {name: getattr(self, name) for name in ("answered", "refused", "failed", "left_out")}
        return counts | {"mean": mean, "longest": self.longest}


def awake_clients(load: Load, seconds: float) -> int:
    """How many clients of a closed loop ask, so many seconds after it began."""
    if not load.period:
        return load.clients
    swing = (load.clients - load.fewest) / 2
    return round(load.fewest + swing * (1 - math.cos(2 * math.pi * seconds / load.period)))


def target(load: Load, chance: random.Random) -> str:
    """The path and query of the next request."""
    separator = "&" if "?" in load.path else "?"
    io_ms, cpu_ms = (ms * chance.uniform(1 - load.spread, 1 + load.spread) for ms in (load.io_ms, load.cpu_ms))
    return f"{load.path}{separator}io_ms={io_ms:g}&cpu_ms={cpu_ms:g}"


async def ask(path: str, address: Address, tally: Tally) -> bool:
    """Make one request and count it. Returns whether it was answered. A client waits for as long as the load runs."""
    start = time.monotonic()
    try:
        reader, writer = await _connect(address)
    except OSError:
        tally.refused += 1
        return False
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        answer = await reader.read(-1)
    except OSError:
        answer = b""
    finally:
        writer.close()
    if not answer or answer.split(b" ", 2)[1] >= b"500":
        tally.failed += 1
        return False
    seconds = time.monotonic() - start
    tally.answered += 1
    tally.total += seconds
    tally.longest = max(tally.longest, seconds)
    return True


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
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


async def arrive(load: Load, address: Address, tally: Tally) -> None:
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
        task = asyncio.create_task(ask(target(load, chance), address, tally))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


async def repeat(load: Load, number: int, address: Address, tally: Tally) -> None:
    """Closed loop: one client asks, thinks, and asks again. number: which of them it is, from 0."""
    chance, begun = random.Random(number), time.monotonic()
    await asyncio.sleep(load.start)
    made = 0
    while not load.requests or made < load.requests:
        if number >= awake_clients(load, time.monotonic() - begun):
            await asyncio.sleep(RETRY)
            continue
        made += 1
        answered = await ask(target(load, chance), address, tally)
        await asyncio.sleep(load.think_ms / 1000 if answered else RETRY)


def started(loads: Sequence[tuple[Load, Address]], tally: Tally) -> list[asyncio.Task[None]]:
    """The tasks that make the requests of all loads, begun in the running event loop."""
    clients = [
        client
        for load, address in loads
        for client in (
            [repeat(load, number, address, tally) for number in range(load.clients)] or [arrive(load, address, tally)]
        )
    ]
    return [asyncio.create_task(client) for client in clients]


def as_json(loads: Sequence[tuple[Load, Address]]) -> str:
    """The argument of this program that stands for these loads."""
    names = [field.name for field in fields(Load)]
    return json.dumps([[{name: getattr(load, name) for name in names}, address] for load, address in loads])


def from_json(text: str) -> list[tuple[Load, Address]]:
    """The inverse of `as_json`."""
    return [
        (Load(**load), address if isinstance(address, str) else (address[0], address[1]))
        for load, address in json.loads(text)
    ]


async def run(loads: Sequence[tuple[Load, Address]], seconds: float) -> Tally:
    """Make the requests for so many seconds."""
    tally = Tally()
    tasks = started(loads, tally)
    try:
        await asyncio.sleep(seconds)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return tally


def main(argv: list[str] | None = None) -> None:
    """Run from the command line; print what the clients experienced."""
    parser = argparse.ArgumentParser(prog="python3 -m app.load", description=__doc__)
    parser.add_argument("loads", metavar="JSON", help="loads and their addresses")
    parser.add_argument("--seconds", type=float, default=3600, help="how long (default: %(default)g)")
    chosen = parser.parse_args(argv)
    print(json.dumps(asyncio.run(run(from_json(chosen.loads), chosen.seconds)).summary()))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
