"""Simulates the threads of a server request by request, and what samples of it show to a recorder of response times."""

import random
from bisect import bisect_right
from collections.abc import Callable
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tests.support.simulated_server import EPOCH, Slot, read_worker, reading
from uwsgi_headroom.history.response_times.recorder import Completed, ResponseTimeRecorder
from uwsgi_headroom.history.response_times.totals import ResponseTimeTotals, ResponseTimeWindow
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.stats import EmperorSnapshot

Draw = Callable[[random.Random], float]
"""Returns a response time in seconds."""

NOTHING = EmperorSnapshot("2.0.31", 1, (), ())
"""A snapshot of no server: workers are passed beside the reading."""


class Load(Struct, frozen=True):
    """A load. idle: mean seconds that a thread is idle between two requests. silent, static: the shares of clients that
    send nothing, whom uWSGI never counts, and of static files, which it counts without their time. Both occupy a thread
    for some `held` seconds. deaths: of each worker in a second; its requests are lost, its threads look busy until its
    successor begins, and the master answers nobody meanwhile, for `respawn` seconds. logged: seconds in which a
    request's log line is written."""

    draw: Draw
    idle: float = 0.4
    workers: int = 4
    threads: int = 8
    silent: float = 0.0
    static: float = 0.0
    held: float = 2.0
    deaths: float = 0.0
    respawn: float = 1.5
    logged: float = 0.0


class Outcome(Struct, frozen=True):
    """What was recorded, and the true times, ascending: in total, and in a window. before: totals at its start."""

    totals: ResponseTimeTotals
    all_times: list[float]
    before: ResponseTimeTotals
    window: ResponseTimeWindow
    times: list[float]

    def percentile(self, share):
        return self.times[max(0, -int(-share * len(self.times) // 1) - 1)]

    def increase(self, bound):
        """By how much the histogram's bucket of this bound grew in the window."""
        return self.totals.count_up_to(bound) - self.before.count_up_to(bound)

    def share_slower(self, bound):
        """The true share of the requests slower than a bound of the bins, and the estimated one."""
        estimated = sum(self.window.counts[self.window.bins.find(bound) + 1 :]) / sum(self.window.counts)
        return 1 - bisect_right(self.times, bound) / len(self.times), estimated


Kind = Literal["request", "static", "silent", "lost"]


class Occupation(NamedTuple):
    """A thread's occupation: `ends` is when its request is counted, `free` when the thread no longer looks busy."""

    starts: float
    ends: float
    free: float
    kind: Kind


class Thread:
    """One occupation after the other. deaths: when its worker's processes end and their successors begin, ascending."""

    def __init__(self, load, seconds, chance, deaths):
        at = -5 * chance.random()
        self.occupations = []
        while at < seconds:
            at += chance.expovariate(1 / load.idle)
            at = next((until for end, until in deaths if end <= at < until), at)
            kind = chance.choices(
                ("silent", "static", "request"), (load.silent, load.static, 1 - load.silent - load.static)
            )[0]
            ends = at + (load.draw(chance) if kind == "request" else chance.expovariate(1 / load.held))
            free = ends + (load.logged if kind == "request" else 0.0)
            for end, until in deaths:
                if at < end < free:
                    kind, free = ("lost", until) if end < ends else (kind, until)
                    break
            self.occupations.append(Occupation(at, ends, free, kind))
            at = free
        self.place = 0  # of the occupation that has not ended yet
        self.times = []  # of the completed requests
        self.counted = self.static = 0
        self.spent = 0.0
        self._is_counted = False

    def go_to(self, at):
        """Goes on until then. Returns the whole second in which the present occupation began."""
        while True:
            now = self.occupations[self.place]
            if now.ends <= at and not self._is_counted:
                self._count(now)
            if now.free > at:
                return EPOCH + int(now.starts // 1) if now.starts <= at else None
            self.place, self._is_counted = self.place + 1, False

    def _count(self, ended):
        self._is_counted = True
        self.counted += ended.kind in ("request", "static")
        self.static += ended.kind == "static"
        if ended.kind == "request":
            self.times.append(ended.ends - ended.starts)
            self.spent += self.times[-1]


class Process:
    def __init__(self, number, load, seconds, chance):
        self.number, self.deaths = number, []
        at = 0.0
        while load.deaths and (at := at + 3 * load.respawn + chance.expovariate(load.deaths)) < seconds:
            self.deaths.append((at, at + load.respawn))
        self.threads = [Thread(load, seconds + 60.0, chance, self.deaths) for _ in range(load.threads)]
        self._generation = self._counted_before = 0

    def sample(self, at):
        starts = {place: start for place, thread in enumerate(self.threads) if (start := thread.go_to(at)) is not None}
        counts = tuple([thread.counted for thread in self.threads])
        generation = sum(until <= at for _, until in self.deaths)
        if generation > self._generation:
            # All that was counted since the successor began is its own.
            since = self.deaths[generation - 1][1]
            late = sum(
                each.kind in ("request", "static") and since <= each.starts and each.ends <= at
                for thread in self.threads
                for each in thread.occupations[: thread.place + 1]
            )
            self._generation, self._counted_before = generation, sum(counts) - late
        spent, static = (sum(getattr(thread, name) for thread in self.threads) for name in ("spent", "static"))
        process = {"pid": 100 * self.number + generation, "since_spawn": sum(counts) - self._counted_before}
        return worker(counts, starts, running_time=spent, static=static, worker_id=self.number, **process)


def simulate(load, seed, *, settle=15.0, seconds=75.0, rate=5.0):
    """Samples a load `rate` times a second, with a jitter of a fifth. The window begins after `settle` seconds."""
    chance = random.Random(seed)
    workers = [Process(number, load, seconds, chance) for number in range(1, load.workers + 1)]
    silences = [silence for each in workers for silence in each.deaths]
    recorder = ResponseTimeRecorder(0.75)
    # Of each batch: the totals at its end, and how many requests each thread has completed.
    ends = {}
    at = before = 0.0
    while at < seconds:
        sample = tuple(each.sample(at) for each in workers)
        requests = sum((each.requests or 0) - (each.static_requests or 0) for each in sample)
        completed = Completed(requests, sum(each.running_time or 0.0 for each in sample), 0)
        joined = at > 0 and at - before <= max(3.0, 3 / rate)
        recorder.add(reading(at, NOTHING, HostFacts()), sample, completed, joined=joined)
        if at in (0.0, recorder.history.ended) and recorder.totals:
            ends[at] = replace(recorder.totals), [len(thread.times) for each in workers for thread in each.threads]
        before = at
        at += (1 + 0.2 * (2 * chance.random() - 1)) / rate
        while silent := [until for end, until in silences if end <= at < until]:
            at = max(silent)
    threads = [thread for each in workers for thread in each.threads]
    start, until = min(end for end in ends if end > settle), max(ends)
    window = recorder.history.window(start, until)
    assert window
    (_, first), (then, began), (totals, now) = ends[0.0], ends[start], ends[until]
    return Outcome(totals, _times(threads, first, now), then, window, _times(threads, began, now))


def _times(threads, start, until):
    return sorted(
        seconds
        for thread, first, last in zip(threads, start, until, strict=True)
        for seconds in thread.times[first:last]
    )


def worker(counts, serving, *, running_time=None, static=0, pid=7, since_spawn=0, worker_id=1):
    """A worker in a sample. counts: completed requests of each thread; serving: by busy thread, the request's start."""
    done = sum(counts)
    slot = Slot(len(counts), pid, "busy" if serving else "idle", len(serving), done, static, running_time)
    slot.respawns, slot.before_spawn, slot.last_spawn = 1, done - since_spawn, EPOCH
    return replace(read_worker(worker_id, slot), serving=dict(serving), thread_requests=counts)
