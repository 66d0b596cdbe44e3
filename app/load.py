"""A gentle load for the demo application: clients that ask, read the answer, think, and ask again.

Their number breathes between two bounds, so that the figures move. The load is closed-loop (no client asks
before its last answer is there), so it can never swamp a server. It ends by itself: when its time is over, or
when the server has gone. For measurements use a real load generator; this one is for looking at figures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

FEWEST, MOST = 2, 10  # clients: at most a third of the demo's 32 threads
PERIOD = 60.0  # seconds a breath takes: several fit into a five-minute window
THINK = 0.06  # mean seconds between an answer and the next request
PATIENCE = 5.0  # seconds a server may refuse connections (a reload takes one or two) before it counts as gone


@dataclass
class Tally:
    """What has happened so far. An exception looks like no answer from here."""

    answered: int = 0
    unanswered: int = 0
    refused_since: float | None = None

    def gone(self, now: float) -> bool:
        """Whether every connection of the last `PATIENCE` seconds was refused."""
        return self.refused_since is not None and now - self.refused_since > PATIENCE


def clients_at(seconds: float) -> int:
    """How many clients are awake `seconds` after the start."""
    swing = (MOST - FEWEST) / 2
    return round(FEWEST + swing * (1 - math.cos(2 * math.pi * seconds / PERIOD)))


def choose(rng: random.Random) -> str:
    """The next request. A mean of 5 ms of CPU and 0.2 s in service: ten clients take a quarter of one CPU."""
    dice = rng.random()
    if dice < 0.80:
        return f"/mixed?cpu_ms={rng.uniform(2, 10):.1f}&io_ms={rng.uniform(80, 350):.0f}"
    if dice < 0.90:
        return f"/{rng.randrange(10_000)}"
    if dice < 0.98:
        return "/pong"
    return f"/slow?s={rng.uniform(1, 3):.1f}" if dice < 0.996 else "/error"


async def ask(host: str, port: int, path: str) -> bool:
    """Whether there was an answer, read to its end. Raises `OSError` where nobody listens."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
        return bool(await reader.read(-1))
    except ConnectionError:
        return False  # ended in the middle of a request: the worker died, or was killed
    finally:
        writer.close()


async def run(host: str, port: int, seconds: float, rng: random.Random, tally: Tally) -> None:
    """Load the server for `seconds`, or until it has gone, and count what happens in `tally`."""
    start = time.monotonic()

    async def client(number: int) -> None:
        while not tally.gone(time.monotonic()):
            if number < clients_at(time.monotonic() - start):
                await _count(tally, lambda: ask(host, port, choose(rng)))
            await asyncio.sleep(rng.expovariate(1 / THINK))

    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.gather(*(client(number) for number in range(MOST))), seconds)


async def _count(tally: Tally, request: Callable[[], Awaitable[bool]]) -> None:
    try:
        answered = await request()
    except OSError:
        tally.refused_since = tally.refused_since or time.monotonic()
        return
    tally.refused_since = None
    tally.answered += answered
    tally.unanswered += not answered


def main(argv: list[str] | None = None) -> str | None:
    """Run from the command line; what is returned is for `sys.exit`: nothing, or why the load ended early."""
    parser = argparse.ArgumentParser(prog="python3 -m app.load", description=__doc__)
    parser.add_argument("port", type=int, help="where the application listens on 127.0.0.1")
    parser.add_argument("--seconds", type=float, default=3600, help="how long (default: %(default)g)")
    chosen = parser.parse_args(argv)
    tally = Tally()
    asyncio.run(run("127.0.0.1", chosen.port, chosen.seconds, random.Random(), tally))
    print(f"{tally.answered} requests answered, {tally.unanswered} without an answer")
    if tally.refused_since is not None:
        return f"the application on port {chosen.port} has gone"
    return None


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
