"""The clients of the lab: those of `tune` in a closed loop, an open loop that may keep connections, and idle ones.

`python -m app.lab.clients LOAD PORT` applies a load, as JSON, and prints `begin` and the time when the measured time
begins, then the CPU seconds that it took, then `Answers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from uwsgi_headroom.clock import within
from uwsgi_headroom.tune import load as package_load
from uwsgi_headroom.tune.load import Tally, ask, connect

MOST_IN_FLIGHT = 2000
"""Requests of an open loop at once; further ones are left out and counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests on one server, in one of two shapes: one of `clients` and `rate` is 0."""

    paths: tuple[str, ...] = ("/",)
    """Requested in turn, each with its query."""
    clients: int = 0
    """Closed loop: so many clients repeat their requests without a pause."""
    rate: float = 0.0
    """Open loop: arrivals per second, at even intervals, that do not wait for earlier answers. Response times count
    from when a request was due."""
    idle: int = 0
    """Connections that are opened before the others, and send nothing."""
    keep_alive: int = 1
    """Calls per connection of an open loop; 1 is HTTP/1.0 without keep-alive."""
    warm_up: float = 2.0
    """Seconds of the same load that do not count."""
    seconds: float = 15.0
    """Of the measurement."""
    timeout: float = 30.0
    """Seconds after which a request of an open loop counts as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the clients of a load saw in the measured time. Times in seconds."""

    seconds: float
    answered: int
    """Complete responses with a status below 500."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """The other requests, by kind."""
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    longest: float | None = None
    statuses: Mapping[int, int] = field(default_factory=dict)
    """How many of those answered had a status of 300 or more, by status."""

    @property
    def throughput(self) -> float:
        """Answers per second."""
        return self.answered / self.seconds


def sum_up(tally: Tally) -> Answers:
    """What a tally has."""
    counts = Answers(seconds=tally.seconds, answered=tally.answered, errors=dict(tally.errors))
    if not tally.answered:
        return counts
    p50, p95, p99 = (tally.percentile(share) for share in (0.5, 0.95, 0.99))
    return Answers(
        **{name: getattr(counts, name) for name in ("seconds", "answered", "errors")},
        mean=tally.mean,
        p50=p50,
        p95=p95,
        p99=p99,
        longest=tally.longest,
        statuses=dict(tally.unsuccessful),
    )


class Kept:
    """Connections that carry several calls."""

    def __init__(self, address: tuple[str, int], calls: int) -> None:
        self._address, self._calls = address, calls
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter, int]] = []

    async def ask(self, path: str, patience: float) -> int | str:
        """Makes a request; returns its status, or why it has none."""
        try:
            return await within(patience, self._ask(path))
        except (asyncio.TimeoutError, OSError, asyncio.IncompleteReadError, ValueError) as error:
            return type(error).__name__

    async def _ask(self, path: str) -> int:
        reader, writer, made = (
            self._free.pop() if self._free else (*await asyncio.open_connection(sock=connect(self._address)), 0)
        )
        is_last = made + 1 >= self._calls
        closing = "Connection: close\r\n" if is_last else ""
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{closing}\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            await (reader.readexactly(int(length[1])) if length else reader.read())
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
            if made:  # the server closed a kept connection at the same moment
                return await self._ask(path)
            raise
        if is_last or not length or reader.at_eof():
            writer.close()
        else:
            self._free.append((reader, writer, made + 1))
        return int(head.split(None, 2)[1])


async def measure(load: Load, address: tuple[str, int]) -> Tally:
    """Applies a load; returns what its measured time had."""
    idle = [connect(address) for _ in range(load.idle)]
    try:
        if not load.rate:
            closed = package_load.Load(
                paths=load.paths, clients=load.clients, warm_up=load.warm_up, seconds=load.seconds
            )
            return await package_load.measure(closed, address, begin, lambda: None)
        return await _arrive(load, address)
    finally:
        for sock in idle:
            sock.close()


async def _arrive(load: Load, address: tuple[str, int]) -> Tally:
    """Makes requests when they are due; those of the measured time count, however late their answers come."""
    warm, tally, kept = Tally(), Tally(seconds=load.seconds), Kept(address, load.keep_alive)
    paths, tasks, start = itertools.cycle(load.paths), set[asyncio.Task[None]](), time.monotonic()
    has_begun = False

    async def make(due: float, into: Tally) -> None:
        path = next(paths)
        asked = kept.ask(path, load.timeout) if load.keep_alive > 1 else ask(address, path, load.timeout)
        answer = await asked
        into.add(time.monotonic() - due, answer)

    for number in range(round(load.rate * (load.warm_up + load.seconds))):
        due = number / load.rate
        await asyncio.sleep(max(0.0, start + due - time.monotonic()))
        if due >= load.warm_up and not has_begun:
            has_begun = True
            begin()
        into = tally if has_begun else warm
        if len(tasks) >= MOST_IN_FLIGHT:
            into.add(0.0, "left out")
            continue
        task = asyncio.create_task(make(start + due, into))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return tally


def begin() -> None:
    """Says that the measured time begins."""
    print("begin", time.monotonic(), time.process_time(), flush=True)


def main() -> None:
    """Runs from the command line."""
    load, port = msgspec.json.decode(sys.argv[1], type=Load), int(sys.argv[2])
    with contextlib.suppress(KeyboardInterrupt):
        tally = asyncio.run(measure(load, ("127.0.0.1", port)))
        print("end", time.monotonic(), time.process_time(), flush=True)
        print(msgspec.json.encode(sum_up(tally)).decode(), flush=True)


if __name__ == "__main__":
    main()
