"""Draws healthy server-days: a server, its daily curve of load, and what happens to it during the day.

A day is healthy by this rule, which was written before the first run but for the objective, and has no verdict in it:

* In the busiest hour the mean wait in the queue, without the bursts, is at most 0.1 s or a quarter of the response
  time, whichever is longer: users do not notice it. A load that would make them wait is lowered until it does not.
* No interpreter computes for more than 45 % of the busiest hour, and no CPU of the host is missing for long.
* Bursts last a minute at most, ask for no more than the threads can serve, and begin in different hours. One day in
  four has a deeper one, so that the queue is full for seconds; users are refused then, which is a reason for a finding,
  and not for a page.
* Deploys are announced or short: a server is away for at most 8 s.
* No request takes longer than 20 s. If the server has an objective, the day keeps it: 99.7 % of the usual requests are
  quicker than its threshold with twice the permitted wait, and so are the requests of the nightly job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import erf, exp, log, pi, sqrt
from typing import Any

import numpy as np

DAY = 86_400
HOUR = 3600.0
QUEUE = 100
"""uWSGI's default for `listen`."""

LONGEST = 20.0
"""Seconds of the longest request: nginx has not given up."""

JOB_LASTS = (4.0, 18.0)
"""Seconds of a request of a nightly job that takes threads; half of that where the objective permits 10 s."""

INTERPRETER = 0.45
"""The most that an interpreter computes in the busiest hour."""

NOTICED = (0.1, 0.25)
"""A healthy mean wait: seconds, and as a multiple of the response time; the longer one counts."""

SIZES = (
    *[((1, 1), 6), ((2, 1), 8), ((4, 1), 12), ((8, 1), 8), ((1, 4), 6), ((2, 2), 6), ((2, 4), 12), ((4, 2), 8)],
    *[((4, 4), 8), ((2, 8), 6), ((4, 8), 6), ((8, 4), 4), ((16, 1), 3), ((8, 8), 2), ((16, 4), 2), ((32, 2), 1)],
    *[((64, 1), 1), ((64, 4), 1)],
)
"""Processes and threads, and how common each is: most servers are small."""


@dataclass(frozen=True)
class Spell:
    """A part of the day. start, end: seconds of the day; factor: of what the spell is about."""

    start: float
    end: float
    factor: float


@dataclass(frozen=True)
class Away:
    """Workers that take no request from `start` to `end`. worker: its place, None for all of them. kind: a worker is
    recycled by `max-requests`, or is a part of a chain reload; the whole server is reloaded, or restarted, which also
    closes its sockets."""

    start: float
    end: float
    kind: str
    worker: int | None = None


@dataclass(frozen=True)
class Day:
    """A server-day. peak: requests per second in the busiest hour; service: mean seconds in service; sigma: of the
    logarithm of the service time; computing: the part of the service time on the CPU; cpus: of the host; keen: whether
    the worker that became free last takes the next request, so that shares are uneven; threshold: seconds of its
    objective of 99 %, 0 without one; waits_known: whether the exporter may see what the threads wait for."""

    seed: int
    processes: int
    threads: int
    peak: float
    service: float
    sigma: float
    computing: float
    cpus: int
    keen: bool
    threshold: float
    waits_known: bool
    night: float
    busiest: float
    max_requests: int = 0
    bursts: Sequence[Spell] = ()
    job: Spell | None = None
    job_takes: str = ""
    neighbours: Sequence[Spell] = ()
    away: Sequence[Away] = ()

    @property
    def capacity(self) -> int:
        return self.processes * self.threads

    def curve(self, second: Array | float) -> Array:
        """The part of the peak's load at a second of the day, without bursts: flat for an hour around the peak."""
        hours = (np.asarray(second, dtype=float) - self.busiest) / HOUR
        swing = 0.5 + 0.5 * np.cos(2 * pi * hours / 24)
        return np.asarray(self.night + (1 - self.night) * swing**1.5)

    def rate(self, second: Array | float) -> Array:
        rates = self.peak * self.curve(second)
        for burst in self.bursts:
            inside = (np.asarray(second) >= burst.start) & (np.asarray(second) < burst.end)
            rates = np.where(inside, rates * burst.factor, rates)
        return rates


def draw(seed: int) -> Day:
    chance = np.random.default_rng(seed)
    sizes, weights = zip(*SIZES, strict=True)
    processes, threads = sizes[chance.choice(len(sizes), p=np.array(weights) / sum(weights))]
    slowest = 2.0
    fastest = 0.005 if processes * threads <= 16 else 0.03 if processes * threads <= 64 else 0.1
    service = exp(chance.uniform(log(fastest), log(slowest)))
    sigma = chance.uniform(0.5, 1.5)
    computing = chance.uniform(0.05, 0.6)
    use = chance.uniform(0.05, 0.75)
    peak = _healthy_rate(processes, threads, service, sigma, computing, use)
    demand = peak * service * computing
    cpus = next(count for count in (1, 2, 4, 8, 16, 32, 64, 128) if count >= 1.7 * demand)
    busiest = chance.uniform(10, 17) * HOUR
    day = Day(
        seed=seed,
        processes=processes,
        threads=threads,
        peak=peak,
        service=service,
        sigma=sigma,
        computing=computing,
        cpus=int(cpus),
        keen=bool(chance.random() < 0.4 and demand < INTERPRETER),
        threshold=_threshold(chance, service, sigma),
        waits_known=bool(chance.random() < 0.5),
        night=float(chance.choice([0.0, 0.002, 0.02, 0.1, 0.3])),
        busiest=busiest,
    )
    return _with_events(day, chance)


def _healthy_rate(processes: int, threads: int, service: float, sigma: float, computing: float, use: float) -> float:
    """Requests per second of the busiest hour, as near to this use of the threads as health permits."""
    seconds, multiple = NOTICED
    most = max(seconds, multiple * service)
    rate = use * processes * threads / service
    rate = min(rate, INTERPRETER * processes / (service * computing))
    while float(mean_wait(np.array(rate), processes * threads, service, sigma)) > most:
        rate *= 0.97
    return rate


def _threshold(chance: np.random.Generator, service: float, sigma: float) -> float:
    """The threshold of the objective, which at least 99.7 % of the requests of a healthy server keep; 0 for the four in
    ten servers without one, and where it would be beyond what an objective permits."""
    quantile = service * exp(2.75 * sigma - sigma**2 / 2) + 2 * max(NOTICED[0], NOTICED[1] * service)
    threshold = next((bound for bound in (0.5, 1.0, 2.0, 5.0, 10.0) if bound >= quantile), 0.0)
    return threshold if chance.random() < 0.6 else 0.0


def _with_events(day: Day, chance: np.random.Generator) -> Day:
    """The day with its bursts, job, neighbours, deploys and recycled workers."""
    hours = chance.choice(np.arange(7, 23), size=chance.integers(2, 7), replace=False)
    bursts = []
    deep = chance.random() < 0.25
    for number, hour in enumerate(sorted(hours)):
        start = (hour + chance.uniform(0.0, 0.9)) * HOUR
        length = exp(chance.uniform(log(3), log(60)))
        factor = min(chance.uniform(1.5, 4.0), day.capacity / day.service / float(day.peak * day.curve(start)))
        if deep and number == 0:
            length, factor = _fill_queue(day, start, chance)
        bursts.append(Spell(start, start + length, factor))
    job = None
    job_takes = ""
    if chance.random() < 0.6:
        start = chance.uniform(1, 4) * HOUR
        job = Spell(start, start + 0.5 * HOUR, chance.uniform(1.2, 1.8))
        takes_threads = day.capacity >= 4 and day.threshold in (0.0, 10.0) and chance.random() < 0.5
        job_takes = "threads" if takes_threads else "cpu"
    neighbours = []
    for _ in range(chance.integers(0, 3)):
        start = chance.uniform(0, 22) * HOUR
        neighbours.append(Spell(start, start + chance.uniform(0.3, 1.0) * HOUR, chance.uniform(0.6, 0.99)))
    in_order = tuple(sorted(neighbours, key=lambda spell: spell.start))
    changed = replace(day, bursts=tuple(bursts), job=job, job_takes=job_takes, neighbours=in_order)
    return _with_absences(changed, chance)


def _fill_queue(day: Day, start: float, chance: np.random.Generator) -> tuple[float, float]:
    """Length and factor of a burst that fills the queue and keeps it full for 2 to 6 s, or as deep as a burst can be:
    no more than thirty times the load."""
    now = float(day.peak * day.curve(start))
    most = day.capacity / day.service
    rising = chance.uniform(5, 15)
    factor = min(30.0, (most + QUEUE / rising) / now)
    return rising + chance.uniform(2, 6), factor


def _with_absences(day: Day, chance: np.random.Generator) -> Day:
    away: list[Away] = []
    for _ in range(chance.integers(1, 3)):
        start = chance.uniform(9, 18) * HOUR
        kind = chance.choice(["reload", "chain", "restart"], p=[0.45, 0.4, 0.15])
        if kind == "chain":
            for worker in range(day.processes):
                end = start + chance.uniform(0.5, 2.0)
                away.append(Away(start, end, "chain", worker))
                start = end
        else:
            away.append(Away(start, start + chance.uniform(1.0, 5.0 if kind == "reload" else 8.0), str(kind)))
    max_requests = 0
    if chance.random() < 0.5:
        max_requests = max(500, round(-(-day.peak / day.processes * 1800 // 1000)) * 1000)
        away += _recycle(day, max_requests, chance)
    return replace(day, max_requests=max_requests, away=tuple(sorted(away, key=lambda one: one.start)))


def _recycle(day: Day, max_requests: int, chance: np.random.Generator) -> list[Away]:
    """The times at which workers reach `max-requests`, with a delta, so that they do not all do so at once."""
    minutes = np.arange(0, DAY, 60.0)
    served = np.cumsum(day.rate(minutes) * 60 / day.processes)
    away = []
    for worker in range(day.processes):
        after = max_requests * chance.uniform(0.1, 1.0)
        while after < served[-1]:
            at = float(minutes[np.searchsorted(served, after)] + chance.uniform(0, 60))
            away.append(Away(at, at + chance.uniform(0.3, 1.5), "recycled", worker))
            after += max_requests
    return away


def job_lasts(day: Day) -> tuple[float, float]:
    shortest, longest = JOB_LASTS
    return (shortest / 2, longest / 2) if day.threshold else JOB_LASTS


def service_times(day: Day, chance: np.random.Generator, count: int) -> Array:
    """Service times of requests: lognormal with a heavy tail, cut off at the longest."""
    mean = log(day.service) - day.sigma**2 / 2
    return np.asarray(np.minimum(LONGEST, np.exp(chance.normal(mean, day.sigma, count))))


Array = np.ndarray[Any, np.dtype[Any]]


def variation(sigma: float) -> float:
    """(1 + cv²)/2 of a lognormal service time, sigma being that of its logarithm."""
    return exp(sigma**2) / 2


def part_delayed(rate: Array, servers: int, service: float) -> Array:
    """Erlang C: the part of the requests that find all threads busy; 1 from the capacity on."""
    offered = np.asarray(rate, dtype=float) * service
    blocked = np.ones_like(offered)
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    stable = np.minimum(offered / servers, 0.999999)
    return np.asarray(np.where(offered >= servers, 1.0, blocked / (1 - stable * (1 - blocked))))


def mean_wait(rate: Array, servers: int, service: float, sigma: float) -> Array:
    """Mean seconds in the queue; infinite from the capacity on."""
    rate = np.asarray(rate, dtype=float)
    free = servers - rate * service
    wait = part_delayed(rate, servers, service) * service / np.maximum(free, 1e-9) * variation(sigma)
    return np.asarray(np.where(free > 0, wait, np.inf))


def part_slower(threshold: float, service: float, sigma: float) -> float:
    """The part of lognormal service times of this mean that exceeds the threshold."""
    mean = log(service) - sigma**2 / 2
    return (1 - erf((log(threshold) - mean) / (sigma * sqrt(2)))) / 2
