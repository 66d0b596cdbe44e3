"""Computes usable headroom: the factor by which load can grow until requests wait noticeably (`noticed_wait`).

A limit of throughput is reached at a utilization of 1, but random arrivals wait long before: with one thread, the wait
is a quarter of the service time at a utilization of 0.2; with 8 threads at 0.79, with 32 at 0.93. Each limit is taken
as a queue of its own, and the usable headroom is that of the queue whose mean wait reaches the threshold first.

The mean wait is that of M/M/c by Erlang's formula (L. Kleinrock, "Queueing Systems", volume 1, 1975, section 3.5). For
threads, it is multiplied by (1 + cv²) / 2 (A. O. Allen, "Probability, Statistics, and Queueing Theory", 1990, section
5.3.3, for random arrivals), where cv is the coefficient of variation of the response times, as estimated from samples;
1 if they are too short to be estimated. Requests that compute share CPUs and interpreters in turns, and the mean wait
does not depend on the variation then (L. Kleinrock, volume 2, 1976, section 4.4: processor sharing).

Where requests come in bursts, they wait sooner than computed; so what is measured goes first: if they wait noticeably
now, the usable headroom is 1 at most, and if they do not wait for threads now, that of the threads is 1 at least. The
same holds for what they wait for in service, where that is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import exp, inf, log
from operator import mul
from typing import NamedTuple

from msgspec.structs import replace

from uwsgi_headroom.analysis.capacity import Headroom, Limit, ServerLoad, list_locked, usable_beside_others
from uwsgi_headroom.analysis.littles_law import noticed_wait, ratio
from uwsgi_headroom.analysis.percentiles import RESOLUTION
from uwsgi_headroom.analysis.wait_states import WaitFigures
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow

LEAST_REQUESTS = 100
"""The fewest requests that show how much response times vary."""

MOST_VARIATION = 5.0
"""The largest squared coefficient of variation that is used. A few requests of a hundred times the mean make
any number; the wait behind them is no mean request's."""


class Queue(NamedTuple):
    """A limit as a queue. use: its utilization; seconds: of a mean request; variation: the factor beside M/M/c."""

    limit: Limit
    servers: int
    use: float
    seconds: float
    variation: float = 1.0


def add_usable(load: ServerLoad, room: Headroom, wait_factor: float, waits: WaitFigures | None) -> Headroom:
    """The headroom with the usable one, if both it and the response time are known. wait_factor: see `variation`."""
    flow, limits, judged = load.flow, room.by_limit, load.flow.waiting
    time = max(0.0, flow.response_time or 0.0)  # a clock that is set back makes uWSGI's times negative
    if room.factor is None or not time or not flow.throughput:
        return room
    # The wait for a thread is beside the response time, and is compared with all of it; the others are in it.
    waiting = _wait_for_limits(waits, limits)
    in_service = noticed_wait(time - (waiting or 0.0))
    outside = noticed_wait(time), float(judged == "none")  # the wait that is allowed, and the least factor
    inside = in_service, float(waiting is not None and waiting < in_service)
    factors = dict(limits)
    for queue in (*_of_threads(load, limits, wait_factor), *_of_resources(load, limits, in_service)):
        allowed, least = outside if queue.limit == "threads" else inside
        used = highest_utilization(queue.servers, _round(allowed / (queue.seconds * queue.variation)))
        factors[queue.limit] = min(max(least, used / queue.use), factors[queue.limit])
    first = min(factors, key=factors.__getitem__)
    if factors[first] > 1 and judged not in (None, "none"):
        return replace(room, usable=1.0, usable_first="threads" if "threads" in factors else first)
    waited_for = [limit for limit in factors if limit != "threads"]
    if factors[first] > 1 and waited_for and waiting is not None and waiting >= in_service:
        return replace(room, usable=1.0, usable_first=min(waited_for, key=factors.__getitem__))
    return replace(room, usable=factors[first], usable_first=first)


def _wait_for_limits(waits: WaitFigures | None, limits: Mapping[Limit, float]) -> float | None:
    """Seconds that a mean request waits for a CPU, an interpreter, or a lock that is a limit; None if unknown. Another
    lock may be what a request asks for."""
    if waits is None or waits.per_request is None:
        return None
    each = waits.per_request
    waiting = each.get("cpu_wait", 0.0) + each.get("interpreter_lock", 0.0)
    return waiting + ("lock" in limits) * each.get("lock", 0.0)


def _of_threads(load: ServerLoad, limits: Mapping[Limit, float], wait_factor: float) -> Iterator[Queue]:
    if "threads" not in limits or not load.flow.response_time:
        return
    if load.threads and not load.by_socket:
        threads, use = max(1, round(load.threads)), 1 / limits["threads"]
        yield Queue("threads", threads, use, load.flow.response_time, wait_factor)
    times = {worker.worker_id: (worker.requests, worker.response_time or 0.0) for worker in load.workers}
    for socket in load.by_socket:
        served = [times[worker_id] for worker_id in socket.workers if worker_id in times]
        requests = sum(count for count, _ in served)
        seconds = ratio(sum(count * each for count, each in served), requests)
        if socket.busy and seconds is not None and seconds > 0:
            yield Queue("threads", socket.threads, socket.used, seconds, wait_factor)


def _of_resources(load: ServerLoad, limits: Mapping[Limit, float], allowed: float) -> Iterator[Queue]:
    """Locks, CPUs and interpreters. Of n threads that always compute, each waits for n - 1 at most, and half on
    average."""
    if load.lock and "lock" in limits:
        yield Queue("lock", 1, 1 / limits["lock"], load.lock.seconds)
    active, throughput = load.active, load.flow.throughput
    used, cpus = sum_if_all_known([worker.interpreter_load for worker in active]), load.cpus
    if not used or not throughput:
        return
    if load.cpu:
        cpus = usable_beside_others(load.cpu.own, load.cpu.idle, load.cpus or 0.0)
    if "cpu" in limits and cpus:
        yield Queue("cpu", max(1, round(cpus)), 1 / limits["cpu"], used / throughput)
    others, locked = (round(load.threads or 0) / len(active) - 1) / 2, list_locked(active)
    if "interpreters" in limits and others * used / throughput >= allowed:
        yield Queue("interpreters", len(locked), 1 / limits["interpreters"], used / throughput)
    hottest = max(locked, key=lambda worker: worker.interpreter_load or 0.0, default=None)
    if "hottest_interpreter" in limits and hottest and hottest.share and hottest.interpreter_load:
        seconds = hottest.interpreter_load / (hottest.share * throughput)
        if others * seconds >= allowed:
            yield Queue("hottest_interpreter", 1, hottest.interpreter_load, seconds)


def variation(window: ResponseTimeWindow | None) -> float:
    """The factor (1 + cv²) / 2 of response times by bin; 1, as of exponential ones, if they are too few or short."""
    if window is None or window.requests < LEAST_REQUESTS:
        return 1.0
    middles = window.bins.middles
    seconds = list(map(mul, window.counts, middles))
    number, total, squares = sum(window.counts), sum(seconds), sum(map(mul, seconds, middles))
    if not total or total < RESOLUTION * window.interval / 2 * number:
        return 1.0
    squared: float = squares * number / (total * total) - 1
    return (1 + min(MOST_VARIATION, max(0.0, squared))) / 2


def erlang_wait(threads: int, offered: float, seconds: float) -> float:
    """The mean wait of random arrivals, in seconds. offered: mean busy threads; seconds: in service."""
    if offered >= threads:
        return inf
    if offered <= 0:
        return 0.0
    # 1 / B = 1 + c / a + c (c - 1) / a² + ..., where B is Erlang's loss formula.
    term = inverse = 1.0
    for left in range(threads, 0, -1):
        term *= left / offered
        inverse += term
        if term < _NEGLIGIBLE * inverse or inverse > _HUGE:
            break
    use = offered / threads
    share = 1 / (use + (1 - use) * inverse)  # Erlang C: the requests that find all threads busy
    return share * seconds / (threads - offered)


_NEGLIGIBLE, _HUGE = 1e-7, 1e100


def _round(wait: float) -> float:
    """A wait to the nearest hundredth of itself, so that neighbouring windows find their answer in the cache."""
    return exp(round(100 * log(wait)) / 100)


@lru_cache(maxsize=4096)
def highest_utilization(servers: int, wait: float) -> float:
    """The utilization of M/M/c with this mean wait in mean service times."""
    low, high = 0.0, 1.0
    for _ in range(24):  # to seven digits
        use = (low + high) / 2
        low, high = (use, high) if erlang_wait(servers, use * servers, 1.0) < wait else (low, use)
    return (low + high) / 2
