"""Simulates the threads of a server request by request, and what samples of it show to a recorder of response times."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from tools.support.simulated_server import EPOCH, reading
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.response_times.recorder import Completed, ResponseTimeRecorder
from uwsgi_headroom.response_times.totals import ResponseTimeTotals, ResponseTimeWindow
from uwsgi_headroom.stats import EmperorSnapshot
from uwsgi_headroom.stats.server import Worker

Draw = Callable[[random.Random], float]
"""Returns a response time in seconds."""

NOTHING = EmperorSnapshot("2.0.31", 1, (), ())
"""A snapshot of no server: workers are passed beside the reading."""


@dataclass(frozen=True)
class Load:
    """A load. idle: mean seconds that a thread is idle between two requests."""

    draw: Draw
    idle: float = 0.4
    workers: int = 4
    threads: int = 8


@dataclass(frozen=True)
class Outcome:
    """What was recorded, and the true response times, ascending: in total, and in a window after the estimate has
    settled. before: the totals at the start of the window."""

    totals: ResponseTimeTotals
    all_times: list[float]
    before: ResponseTimeTotals
    window: ResponseTimeWindow
    times: list[float]

    def percentile(self, share: float) -> float:
        """The true percentile: the least response time that this share of the requests does not exceed."""
        return self.times[max(0, -int(-share * len(self.times) // 1) - 1)]

    def increase(self, bound: float) -> int:
        """By how much the histogram's bucket of this bound grew in the window."""
        return self.totals.count_up_to(bound) - self.before.count_up_to(bound)

    def share_slower(self, bound: float) -> tuple[float, float]:
        """The true share of the requests slower than a bound of the bins, and the estimated one."""
        estimated = sum(self.window.counts[self.window.bins.find(bound) + 1 :]) / sum(self.window.counts)
        return 1 - bisect_right(self.times, bound) / len(self.times), estimated


class Thread:
    """A thread that serves request after request."""

    def __init__(self, load: Load, seconds: float, chance: random.Random) -> None:
        at = -5 * chance.random()
        self.starts: list[float] = []
        self.ends: list[float] = []
        while at < seconds:
            at += chance.expovariate(1 / load.idle)
            self.starts.append(at)
            at += load.draw(chance)
            self.ends.append(at)
        self.spent = list(accumulate(end - start for start, end in zip(self.starts, self.ends, strict=True)))
        self.done = 0

    def go_to(self, at: float) -> int | None:
        """End the requests that have ended by then. Returns the whole second in which the present one began."""
        while self.ends[self.done] <= at:
            self.done += 1
        return EPOCH + int(self.starts[self.done] // 1) if self.starts[self.done] <= at else None


def simulate(load: Load, seed: int, *, settle: float = 15.0, seconds: float = 75.0, rate: float = 5.0) -> Outcome:
    """Samples a load `rate` times a second, at intervals with a jitter of a fifth, as `watch.pace` does. The window
    begins with the end of the first batch after `settle` seconds."""
    chance = random.Random(seed)
    workers = [[Thread(load, seconds + 1, chance) for _ in range(load.threads)] for _ in range(load.workers)]
    recorder = ResponseTimeRecorder((0.75,))
    # Of each batch: the totals at its end, and the requests that each thread has completed.
    ends: dict[float, tuple[ResponseTimeTotals, list[int]]] = {}
    at = 0.0
    while at < seconds:
        sample = tuple(_sample(number, threads, at) for number, threads in enumerate(workers, 1))
        requests, running = sum(each.requests or 0 for each in sample), sum(each.running_time or 0.0 for each in sample)
        recorder.add(reading(at, NOTHING, HostFacts()), sample, Completed(requests, running, 0), joined=at > 0)
        if at in (0.0, recorder.history.ended) and recorder.totals:
            ends[at] = recorder.totals.copy(), [thread.done for threads in workers for thread in threads]
        at += (1 + 0.2 * (2 * chance.random() - 1)) / rate
    threads = [thread for worker in workers for thread in worker]
    start, until = min(end for end in ends if end > settle), max(ends)
    window = recorder.history.window(start, until)
    assert window
    (_, first), (before, then), (totals, now) = ends[0.0], ends[start], ends[until]
    return Outcome(totals, _times(threads, first, now), before, window, _times(threads, then, now))


def _times(threads: list[Thread], start: list[int], until: list[int]) -> list[float]:
    """The response times of the requests from these numbers on, until those, ascending."""
    return sorted(
        thread.ends[place] - thread.starts[place]
        for thread, first, last in zip(threads, start, until, strict=True)
        for place in range(first, last)
    )


def _sample(number: int, threads: list[Thread], at: float) -> Worker:
    starts = {place: start for place, thread in enumerate(threads) if (start := thread.go_to(at)) is not None}
    running = sum(thread.spent[thread.done - 1] if thread.done else 0.0 for thread in threads)
    return worker(tuple([thread.done for thread in threads]), starts, running_time=running, worker_id=number)


def worker(
    counts: tuple[int, ...],
    serving: Mapping[int, int | None],
    *,
    running_time: float | None = None,
    static: int = 0,
    pid: int | None = 7,
    since_spawn: int = 0,
    worker_id: int = 1,
) -> Worker:
    """A worker in a sample. counts: completed requests of each thread; serving: by busy thread, the start of its
    request."""
    return Worker(
        worker_id=worker_id,
        pid=pid,
        state="busy" if serving else "idle",
        accepting=True,
        threads=len(counts),
        busy_threads=len(serving),
        requests=sum(counts),
        requests_since_spawn=since_spawn,
        static_requests=static,
        running_time=running_time,
        exceptions=0,
        harakiris=0,
        respawns=1,
        signals=0,
        transmitted_bytes=0,
        resident_bytes=None,
        last_spawn=EPOCH,
        serving=dict(serving),
        thread_requests=counts,
        apps=(),
    )
