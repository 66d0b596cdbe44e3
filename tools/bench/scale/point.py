"""Measures one size in a process of its own: `python3 -m tools.bench.scale.point SPECIFICATION`, which is JSON.

A process for each size, because garbage collection and caches take the whole heap into account. The process samples and
scrapes whenever it reads a line, and writes its costs as a line of JSON. Its clock moves by a second for each sample,
so that whatever is due every so many seconds has its true share. CPU is user and system time of this process. A scrape
goes through the whole application, but not through a socket.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from tools.bench.scraper import HEADERS
from tools.support.clock import MovableClock
from uwsgi_headroom.config.servers import make_server
from uwsgi_headroom.config.settings import Settings
from uwsgi_headroom.serve import GARBAGE_THRESHOLDS
from uwsgi_headroom.watch.fleet import Fleet
from uwsgi_headroom.web.app import create_application

PERIOD = 15
"""Facts that change slowly are read every 15 s: a multiple of this many samples has an even share of them."""

_SCRAPES = 3

_UP = re.compile(rb"^uwsgi_up\{[^}]*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Specification:
    """What a point measures: sockets of servers, how many scrapers request at once, how many samples are taken before
    the first measurement, and how many periods of samples are measured each time. is_fresh: whether each measurement is
    of a new fleet, from its first sample on."""

    paths: Sequence[str]
    scrapers: int = 1
    warm_up: int = 2 * PERIOD
    periods: int = 1
    is_fresh: bool = False
    waits: bool = True


@dataclass(frozen=True)
class Cost:
    """samples: CPU seconds of all samples of all servers; each: of one sample of all servers; scrape: CPU seconds of a
    scrape by all scrapers; resident: bytes of the process; series: of a response."""

    samples: float
    each: float
    scrape: float
    resident: int
    series: int


class Point:
    """A fleet of the servers of a specification, which is sampled and scraped step by step."""

    def __init__(self, specification: Specification) -> None:
        self._specification = specification
        self._hands = MovableClock()
        servers = [make_server(f"unix://{path}") for path in specification.paths]
        settings = Settings(samples_per_second=1.0, waits=specification.waits)
        self._fleet = Fleet(servers, settings, self._hands.clock)
        self._application = create_application(self._fleet)

    async def sample(self, number: int) -> float:
        """Take so many samples of each server; return the CPU seconds of all."""
        began = time.process_time()
        for _ in range(number):
            self._hands.move(1.0)
            for watch in self._fleet.watches():
                await watch.reader.read()
                watch.judge.judge_if_due()
        return time.process_time() - began

    async def measure(self) -> Cost:
        """Measure samples, then scrapes, each after one more sample."""
        number = self._specification.periods * PERIOD
        samples = await self.sample(number)
        scrapes = []
        for scrape in range(_SCRAPES + 1):
            await self.sample(1)
            began = time.process_time()
            await asyncio.gather(*(self._request() for _ in range(self._specification.scrapers)))
            if scrape:  # the first one fills the caches again
                scrapes.append(time.process_time() - began)
        plain = await self._request({})
        up = _UP.findall(plain)
        if up != [b"1.0"] * len(self._specification.paths):
            raise RuntimeError(f"{len(up) - up.count(b'1.0')} of {len(up)} servers are not up")
        series = sum(1 for line in plain.splitlines() if not line.startswith(b"#"))
        resident = psutil.Process().memory_info().rss
        return Cost(samples, samples / number, statistics.median(scrapes), resident, series)

    async def _request(self, headers: dict[str, str] = HEADERS) -> bytes:
        body = bytearray()
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/metrics",
            "raw_path": b"/metrics",
            "query_string": b"",
            "headers": [
                (name.lower().encode(), value.encode()) for name, value in {"Host": "127.0.0.1", **headers}.items()
            ],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1024),
        }
        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await asyncio.Event().wait()  # the client stays
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            assert message.get("status", 200) == 200, message
            body.extend(message.get("body", b""))

        await self._application(scope, receive, send)  # type: ignore[arg-type]
        return bytes(body)


async def run(specification: Specification) -> None:
    gc.set_threshold(*GARBAGE_THRESHOLDS)  # as the exporter does
    point = Point(specification)
    await point.sample(specification.warm_up)
    for _ in sys.stdin:
        if specification.is_fresh:
            point = Point(specification)
            gc.collect()
        print(json.dumps(asdict(await point.measure())), flush=True)


if __name__ == "__main__":
    asyncio.run(run(Specification(**json.loads(sys.argv[1]))))
