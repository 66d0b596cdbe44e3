"""Simulates a uWSGI whose requests wait for one backend, and cuts what it would measure into windows.

Requests come at random at a rate that changes with time, wait in a listen queue of 100 for one of the threads, compute
for a few milliseconds and then wait for the backend. A backend is one of two kinds: a queue before so many servers, or
one with room for all. Either takes a time for each request that may depend on the time of day.
"""

import math
import random
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Literal

from msgspec import Struct

from tests.support.windows import window, worker
from uwsgi_headroom.analysis.backends import SLICE_SECONDS, BackendSlices
from uwsgi_headroom.history.window import Window

OWN_SECONDS, LISTEN = 0.005, 100

Rate = Callable[[float], float]
"""Arrivals per second at a time."""
Draw = Callable[[float, random.Random], float]
"""Seconds of a request in the backend, without waiting for other requests, that begins at a time."""


def wave(low: float, high: float, period: float) -> Rate:
    """A rate that goes up and down once in `period` seconds."""
    return lambda now: low + (high - low) * (1 - math.cos(2 * math.pi * now / period)) / 2


def steady(rate: float) -> Rate:
    """The same rate at any time."""
    return lambda _now: rate


def constant(seconds: float) -> Draw:
    """The same time for each request."""
    return lambda _now, _chance: seconds


def spread(seconds: float, variation: float = 1.0) -> Draw:
    """Times with a log-normal distribution of this mean and coefficient of variation."""
    squared = math.log(1 + variation**2)
    return lambda _now, chance: chance.lognormvariate(math.log(seconds) - squared / 2, math.sqrt(squared))


def at_times_slow(seconds: float, factor: float, every: float, seed: int) -> Draw:
    """Times of all requests that are longer by a factor in phases that begin and end at random, about `every`
    seconds."""
    chance, draw = random.Random(seed), spread(seconds)
    ends, slow = [0.0, 0.0], [True]

    def at(now: float, request: random.Random) -> float:
        while now >= ends[-1]:
            ends.append(ends[-1] + chance.expovariate(1 / every))
            slow[0] = not slow[0]
        return draw(now, request) * (factor if slow[0] else 1.0)

    return at


class Backend(Struct, frozen=True):
    """servers: requests that it works on at once, first come, first served; 0 for any number."""

    draw: Draw
    servers: int = 0


What = Literal["arrives", "asks", "ends"]
Event = tuple[float, int, What]


def run(backend: Backend, rate: Rate, seconds: float, seed: int, threads: int = 16) -> BackendSlices:
    """The slices of such a server."""
    slices = BackendSlices()
    for part in windows(backend, rate, seconds, seed, threads):
        slices.add(part)
    return slices


def windows(backend: Backend, rate: Rate, seconds: float, seed: int, threads: int = 16) -> Iterator[Window]:
    """Windows of SLICE_SECONDS, one after another."""
    chance = random.Random(seed)
    most = max(rate(second / 4) for second in range(int(4 * seconds)))
    events: list[Event] = [(chance.expovariate(most), 0, "arrives")]
    number = queued = busy = waiting = worked_on = done = 0
    area = before = 0.0
    end = SLICE_SECONDS

    def plan(at: float, what: What) -> None:
        nonlocal number
        number += 1
        heappush(events, (at, number, what))

    while end <= seconds:
        now, _, what = heappop(events)
        while now >= end:
            area += (waiting + worked_on) * (end - before)
            yield window(SLICE_SECONDS, worker(1, done), waits={"backend": area / SLICE_SECONDS})
            before, area, done, end = end, 0.0, 0, end + SLICE_SECONDS
        area += (waiting + worked_on) * (now - before)
        before = now
        if what == "arrives":
            plan(now + chance.expovariate(most), "arrives")
            queued += queued < LISTEN and chance.random() * most < rate(now)
        elif what == "asks":
            waiting += 1
        else:
            worked_on, busy, done = worked_on - 1, busy - 1, done + 1
        while queued and busy < threads:
            queued, busy = queued - 1, busy + 1
            plan(now + chance.expovariate(1 / OWN_SECONDS), "asks")
        while waiting and (not backend.servers or worked_on < backend.servers):
            waiting, worked_on = waiting - 1, worked_on + 1
            plan(now + backend.draw(now, chance), "ends")
