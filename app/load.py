"""Defines loads on a uWSGI, and the clients that make their requests with the package's load client.

The scenes of the demo and the scenarios of `tools` use these loads. `tune` measures with the same client, but its
clients all do the same.

`python3 -m app.load JSON` makes requests for the given time. JSON is a list of pairs: the fields of a load, and the
address, which is the path of a UNIX socket or a list of host and port.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import random
import re
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields

from uwsgi_headroom.tune import load
from uwsgi_headroom.tune.load import RETRY, Address, ask, connect


@dataclass(frozen=True)
class Load:
    """Requests of one kind. Either `rate` (open loop) or `clients` (closed loop) sets how many.

    rate: arrivals per second, which do not wait for earlier answers; most: with this many requests in flight, an
    arrival is left out, so that an overload stays bounded. clients: how many clients repeat their request `think_ms`
    after each answer; fewest, period: the number of clients swings between `fewest` and `clients` in `period` seconds.
    io_ms, cpu_ms: mean wait and CPU time of a request; spread: each request draws both from the mean times
    1 - spread to 1 + spread. requests: limit for each client, or for all arrivals; 0 for no limit. start: seconds until
    the first request. patience_ms: a client that has no answer by then closes its connection; 0 for no limit.
    late_ms: a client waits so long before it reads its answer. socket: the name of the server's socket that the
    requests go to. keep_alive: each client of a closed loop keeps its connection (HTTP/1.1). seed: of the arrivals of
    an open loop, and of what each of its requests asks for.
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
    patience_ms: float = 0.0
    late_ms: float = 0.0
    socket: str = "web"
    keep_alive: bool = False
    seed: int = 1


class Tally(load.Tally):
    """Results of the clients' requests."""

    @property
    def refused(self) -> int:
        return self.errors["refused"]

    @property
    def left_out(self) -> int:
        """Arrivals beyond `most` in flight."""
        return self.errors["left out"]

    @property
    def failed(self) -> int:
        """Requests with a connection, and without an answer or with a status of 500 and above."""
        return self.errors.total() - self.refused - self.left_out

    def summary(self) -> dict[str, float]:
        """The counts, and the mean and longest response time in seconds."""
        counts = {name: getattr(self, name) for name in ("answered", "refused", "failed", "left_out")}
        return counts | {"mean": self.mean, "longest": self.longest}


def awake_clients(load: Load, seconds: float) -> int:
    """How many clients of a closed loop are active, `seconds` after the load began."""
    if not load.period:
        return load.clients
    swing = (load.clients - load.fewest) / 2
    return round(load.fewest + swing * (1 - math.cos(2 * math.pi * seconds / load.period)))


def patience_of(load: Load) -> float | None:
    """The seconds after which a client of the load leaves; None if it does not."""
    return load.patience_ms / 1000 or None


def target(load: Load, chance: random.Random) -> str:
    """The path and query of the next request."""
    separator = "&" if "?" in load.path else "?"
    io_ms, cpu_ms = (ms * chance.uniform(1 - load.spread, 1 + load.spread) for ms in (load.io_ms, load.cpu_ms))
    return f"{load.path}{separator}io_ms={io_ms:g}&cpu_ms={cpu_ms:g}"


async def count(load: Load, path: str, address: Address, tally: Tally) -> bool:
    """Makes one request and counts it. Returns whether it was answered."""
    begun = time.monotonic()
    answer = await ask(address, path, patience_of(load), load.late_ms / 1000)
    return tally.add(time.monotonic() - begun, answer)


async def arrive(load: Load, address: Address, tally: Tally) -> None:
    """Open loop: makes requests at `rate` without waiting for earlier answers; intervals vary from half to 1.5 times
    the mean."""
    chance, tasks, loop = random.Random(load.seed), set[asyncio.Task[bool]](), asyncio.get_running_loop()
    await asyncio.sleep(load.start)
    due = loop.time()
    arrivals = 0
    while not load.requests or arrivals < load.requests:
        due += (0.5 + chance.random()) / load.rate
        await asyncio.sleep(max(0.0, due - loop.time()))
        arrivals += 1
        if len(tasks) >= load.most:
            tally.add(0.0, "left out")
            continue
        task = asyncio.create_task(count(load, target(load, chance), address, tally))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


async def repeat(load: Load, number: int, address: Address, tally: Tally) -> None:
    """Closed loop: one client makes a request, waits, and repeats. number: the index of the client, from 0."""
    chance, begun = random.Random(number), time.monotonic()
    await asyncio.sleep(load.start)
    made = 0
    while not load.requests or made < load.requests:
        if number >= awake_clients(load, time.monotonic() - begun):
            await asyncio.sleep(RETRY)
            continue
        made += 1
        answered = await count(load, target(load, chance), address, tally)
        await asyncio.sleep(load.think_ms / 1000 if answered else RETRY)


async def keep(load: Load, number: int, address: Address, tally: Tally) -> None:
    """Closed loop: one client makes its requests on one connection, and connects again if the server closes it."""
    chance = random.Random(number)
    await asyncio.sleep(load.start)
    while True:
        writer = None
        try:
            reader, writer = await asyncio.open_connection(sock=connect(address))
            while True:
                start = time.monotonic()
                writer.write(f"GET {target(load, chance)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                tally.add(time.monotonic() - start, int(head.split(None, 2)[1]))
                await asyncio.sleep(load.think_ms / 1000)
        except (OSError, asyncio.IncompleteReadError) as error:
            if writer is None or isinstance(error, ConnectionRefusedError):
                tally.add(0.0, "refused")
            await asyncio.sleep(RETRY)
        finally:
            if writer:
                writer.close()


def started(loads: Sequence[tuple[Load, Address]], tally: Tally) -> list[asyncio.Task[None]]:
    """Starts and returns the tasks that make the requests of all loads, in the running event loop."""
    clients = [
        client
        for load, address in loads
        for client in (
            [(keep if load.keep_alive else repeat)(load, number, address, tally) for number in range(load.clients)]
            or [arrive(load, address, tally)]
        )
    ]
    return [asyncio.create_task(client) for client in clients]


def as_json(loads: Sequence[tuple[Load, Address]]) -> str:
    """The loads as the argument of this program."""
    names = [field.name for field in fields(Load)]
    return json.dumps([[{name: getattr(load, name) for name in names}, address] for load, address in loads])


def from_json(text: str) -> list[tuple[Load, Address]]:
    """The inverse of `as_json`."""
    return [
        (Load(**load), address if isinstance(address, str) else (address[0], address[1]))
        for load, address in json.loads(text)
    ]


async def run(loads: Sequence[tuple[Load, Address]], seconds: float, *, input_ends: bool = False) -> Tally:
    """Makes the requests of all loads for `seconds`, or until standard input ends; returns their results."""
    tally = Tally()
    tasks = started(loads, tally)
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    if input_ends:
        threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(ended.set)), daemon=True).start()
    try:
        await asyncio.wait([asyncio.create_task(ended.wait())], timeout=seconds)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return tally


def main(argv: list[str] | None = None) -> None:
    """Runs from the command line; prints the results as JSON."""
    parser = argparse.ArgumentParser(prog="python3 -m app.load", description=__doc__)
    parser.add_argument("loads", metavar="JSON", help="loads and their addresses")
    parser.add_argument("--seconds", type=float, default=3600, help="how long (default: %(default)g)")
    parser.add_argument("--input-ends", action="store_true", help="the end of standard input ends them earlier")
    chosen = parser.parse_args(argv)
    made = asyncio.run(run(from_json(chosen.loads), chosen.seconds, input_ends=chosen.input_ends))
    print(json.dumps(made.summary()))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
