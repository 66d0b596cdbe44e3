"""A simulated day of uWSGI servers, as the counters that an exporter would show once a minute.

Requests arrive at random (Poisson), more by day than by night. Each uses its worker's interpreter for a random time,
and waits for something else for a random time. A free thread of a random worker takes the request, or the first thread
that becomes free; an interpreter serves one request at a time. So queues for threads and interpreters, and hot workers,
occur at random as on a real server, and concurrency, response time and CPU time are consistent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import cos, pi
from random import Random

SCRAPE = 60


@dataclass(frozen=True)
class Site:
    """One server. peak: load of its busiest minutes, in CPU seconds per second of all interpreters; cpu, wait: mean
    seconds that a request uses an interpreter, and waits for something else; preference: relative frequency with which
    each worker takes a request, equal if empty."""

    name: str
    workers: int
    threads: int
    peak: float
    cpu: float
    wait: float
    preference: Sequence[float] = ()


def load(second: float) -> float:
    """Part of the peak load at a second of the day: least at 3 a.m., most at 3 p.m."""
    return 0.55 - 0.45 * cos(2 * pi * (second / 3600 - 3) / 24)


@dataclass
class _Worker:
    """A worker. free: when its interpreter has finished its work; the other fields are totals."""

    busy: int = 0
    started: float = 0.0
    free: float = 0.0
    requests: int = 0
    running: float = 0.0
    cpu: float = 0.0


def counters(site: Site, seed: int, minutes: int = 24 * 60) -> Mapping[str, Sequence[float]]:
    """The values of each counter, minute by minute; for a worker's counter, the name ends with a space and the
    worker_id."""
    random = Random(f"{site.name} {seed}")
    workers = [_Worker() for _ in range(site.workers)]
    values: dict[str, list[float]] = {}
    full = queued = 0.0
    for now, full, queued in _scrapes(site, workers, random, minutes):
        values.setdefault("full", []).append(round(full, 3))
        values.setdefault("queue", []).append(round(queued, 3))
        for place, worker in enumerate(workers, start=1):
            values.setdefault(f"requests {place}", []).append(worker.requests)
            values.setdefault(f"running {place}", []).append(round(worker.running, 6))
            values.setdefault(f"busy {place}", []).append(round(worker.running + worker.busy * now - worker.started, 3))
            values.setdefault(f"cpu {place}", []).append(round(worker.cpu - max(0.0, worker.free - now), 2))
    return values


def _scrapes(site: Site, workers: list[_Worker], random: Random, minutes: int) -> Iterator[tuple[float, float, float]]:
    """Yields the time of each scrape, and until then the seconds with every thread busy and the queue-length
    integral."""
    endings: list[tuple[float, int, float]] = []
    waiting: deque[float] = deque()
    peak = site.peak / site.cpu
    threads = site.workers * site.threads
    busy, full, queued, at, scrape = 0, 0.0, 0.0, 0.0, 0
    arrival = random.expovariate(peak)

    def take(now: float) -> None:
        """A free thread begins a request: computing comes first, then waiting, so that its end is known at once."""
        place = _choose(site, workers, random)
        worker = workers[place]
        work = random.gammavariate(1.5, site.cpu / 1.5)
        worker.free = max(worker.free, now) + work
        worker.cpu += work
        worker.busy += 1
        worker.started += now
        heappush(endings, (worker.free + random.expovariate(1 / site.wait), place, now))

    while True:
        then = min(arrival, endings[0][0] if endings else arrival)
        while scrape * SCRAPE <= then:
            tick = scrape * SCRAPE
            since = max(0.0, tick - at)
            yield tick, full + since * (busy == threads), queued + since * len(waiting)
            scrape += 1
            if scrape > minutes:
                return
        full += (then - at) * (busy == threads)
        queued += (then - at) * len(waiting)
        at = then
        if then == arrival:
            if random.random() < load(then):
                if busy < threads:
                    take(then)
                    busy += 1
                else:
                    waiting.append(then)
            arrival = then + random.expovariate(peak)
            continue
        _, place, began = heappop(endings)
        worker = workers[place]
        worker.busy -= 1
        worker.started -= began
        worker.requests += 1
        worker.running += then - began
        if waiting:
            waiting.popleft()
            take(then)
        else:
            busy -= 1


def _choose(site: Site, workers: list[_Worker], random: Random) -> int:
    """A random worker with a free thread, by preference."""
    while True:
        if site.preference:
            place = random.choices(range(site.workers), site.preference)[0]
        else:
            place = int(random.random() * site.workers)
        if workers[place].busy < site.threads:
            return place
