"""The course of a simulated day: what uWSGI, the kernel and the exporter's samples show, and what users had.

Every stretch of a day in which something happens is simulated request by request, as far as the number of requests
permits; a day with few requests is simulated from midnight to midnight. For the rest there are formulas.

Requests are served as uWSGI does: any free thread takes the next of one queue. A request computes first, one at a time
in each interpreter, and waits for something else then, so that its end is known when it starts. While the whole server
is reloaded no request starts; a restart also refuses new ones. The threads of a worker that is away take none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import NamedTuple

import numpy as np

from tools.bench.days.healthy import (
    DAY,
    NOTICED,
    QUEUE,
    Array,
    Away,
    Day,
    job_lasts,
    mean_wait,
    part_delayed,
    part_slower,
    service_times,
)


class Served(NamedTuple):
    """The accepted requests in the order of their arrival, and the arrivals of those that were refused."""

    arrivals: Array
    starts: Array
    computed: Array
    """The time at which each has finished computing."""
    ends: Array
    computing: Array
    """Seconds on the CPU."""
    workers: Array
    refused: Array


def serve(  # noqa: PLR0912, PLR0915 - one loop over all requests: a call for each would double its time
    day: Day, arrivals: Array, computing: Array, rest: Array, chance: np.random.Generator
) -> Served:
    """Serves requests. computing, rest: seconds of each on the CPU, and in other waits."""
    free = [worker for _ in range(day.threads) for worker in range(day.processes)]
    choices = None if day.keen else chance.random(len(arrivals)).tolist()
    interpreters = [0.0] * day.processes
    busy: list[tuple[float, int]] = []  # when a thread can take another request, and its worker
    later: deque[float] = deque()  # the starts of the requests that wait
    whole = deque(away for away in day.away if away.worker is None)
    single = deque(away for away in day.away if away.worker is not None)
    first = float(arrivals[0]) if len(arrivals) else 0.0
    while single and single[0].end <= first:
        single.popleft()
    next_away = single[0].start if single else inf
    next_closed = whole[0].start if whole else inf
    starts, computed, ends, workers, kept, refused = [], [], [], [], [], []
    for number, (now, cpu, wait) in enumerate(zip(arrivals.tolist(), computing.tolist(), rest.tolist(), strict=True)):
        while now >= next_away:
            _take_away(free, busy, single.popleft())
            next_away = single[0].start if single else inf
        while busy and busy[0][0] <= now:
            free.append(heappop(busy)[1])
        while later and later[0] <= now:
            later.popleft()
        while now >= next_closed and now >= whole[0].end:
            whole.popleft()
            next_closed = whole[0].start if whole else inf
        if len(later) > QUEUE or (now >= next_closed and whole[0].kind == "restart"):
            refused.append(now)
            continue
        if free:
            start = now
            if choices is not None:
                place = int(choices[number] * len(free))
                free[place], free[-1] = free[-1], free[place]
            worker, taken = free.pop(), False
        else:
            start, worker = busy[0]
            taken = True
        if next_closed <= start < whole[0].end:
            start = whole[0].end
        begin = max(interpreters[worker], start)
        done = interpreters[worker] = begin + cpu
        end = done + wait
        if taken:
            heapreplace(busy, (end, worker))
        else:
            heappush(busy, (end, worker))
        if start > now:
            later.append(start)
        kept.append(number)
        starts.append(start)
        computed.append(done)
        ends.append(end)
        workers.append(worker)
    accepted = np.array(kept, dtype=int)
    return Served(
        arrivals[accepted],
        np.array(starts),
        np.array(computed),
        np.array(ends),
        computing[accepted],
        np.array(workers, dtype=int),
        np.array(refused),
    )


def _take_away(free: list[int], busy: list[tuple[float, int]], away: Away) -> None:
    """Keeps the threads of a worker from requests until it is back. Those in service end as they would."""
    worker = away.worker or 0
    gone = free.count(worker)
    free[:] = [each for each in free if each != worker]
    busy[:] = [(max(end, away.end), each) if each == worker else (end, each) for end, each in busy]
    busy += [(away.end, worker)] * gone
    heapify(busy)


STEP = 5.0
"""Seconds between two marks: the exporter judges a server that often."""

MARKS = int(DAY / STEP)

SAMPLES = 25
"""Samples of the queue and of the threads between two marks: 5 a second, as the exporter takes them."""

MOST_REQUESTS = 400_000
"""Requests of a day that are simulated one by one."""

EXCEPTIONS = 0.001
"""The part of the requests that raise an exception."""

OTHERS = 0.03
"""The part of the CPUs that other programs use when no neighbour is busy."""

WAITED = 1.0
"""Seconds in the queue that a user is sure to notice."""


class Hurt(NamedTuple):
    """What users had in some minutes: the part of the requests that waited for more than a second or were refused, the
    number of these, and of those of them that were refused. slowed: the part of the requests that waited for longer
    than the mean request is served, and for more than 0.1 s."""

    part: float
    number: int
    refused: int
    slowed: float

    @property
    def is_felt(self) -> bool:
        """Whether somebody on call would agree that users were hurt: at least a twentieth of the requests, and at least
        five. A single user who waits is no reason to call anybody."""
        return self.part >= 0.05 and self.number >= 5

    @property
    def explains_critical(self) -> bool:
        """Whether a CRITICAL verdict about two minutes is right: users were hurt, or several saw an error, or a fifth
        of the requests took more than twice as long as usual, which is a burst at the limit of the threads."""
        return self.is_felt or self.refused >= 5 or self.slowed >= 0.2


@dataclass
class Course:
    """What grew from each mark to the next, in rows of MARKS numbers; for workers, a row each.

    observed: seconds covered by samples; full: with every available thread busy; queue: the integral of its length;
    queue_full: seconds at its limit; length: of the queue at the end; offered: requests by their arrival; waited: those
    of them that waited long; refused: those that were refused; slowed: those that waited
    for longer than they are served; slow, late: those that missed the objective in service,
    or with the wait before; idle, others: CPU seconds. cpu_wait, lock: seconds in which requests wait for a CPU, or for
    the interpreter of their worker.
    """

    day: Day
    simulated: Array
    requests: Array
    running: Array
    busy: Array
    cpu: Array
    cpu_wait: Array
    lock: Array
    up: Array
    respawns: Array
    observed: Array = field(default_factory=lambda: np.full(MARKS, STEP))
    full: Array = field(default_factory=lambda: np.zeros(MARKS))
    queue: Array = field(default_factory=lambda: np.zeros(MARKS))
    queue_full: Array = field(default_factory=lambda: np.zeros(MARKS))
    length: Array = field(default_factory=lambda: np.zeros(MARKS))
    offered: Array = field(default_factory=lambda: np.zeros(MARKS))
    waited: Array = field(default_factory=lambda: np.zeros(MARKS))
    refused: Array = field(default_factory=lambda: np.zeros(MARKS))
    slowed: Array = field(default_factory=lambda: np.zeros(MARKS))
    slow: Array = field(default_factory=lambda: np.zeros(MARKS))
    late: Array = field(default_factory=lambda: np.zeros(MARKS))
    exceptions: Array = field(default_factory=lambda: np.zeros(MARKS))
    idle: Array = field(default_factory=lambda: np.zeros(MARKS))
    others: Array = field(default_factory=lambda: np.zeros(MARKS))
    reloads: Array = field(default_factory=lambda: np.zeros(MARKS))

    def total(self, name: str) -> Array:
        """A figure as a counter: its value at the start of the day and at each mark."""
        grown = getattr(self, name)
        start = np.zeros((*grown.shape[:-1], 1))
        return np.concatenate([start, np.cumsum(grown, axis=-1)], axis=-1)

    def hurt(self, first: int, end: int) -> Hurt:
        offered, waited, refused, slowed = (
            float(grown[first:end].sum()) for grown in (self.offered, self.waited, self.refused, self.slowed)
        )
        number = waited + refused
        return Hurt(number / max(1.0, offered), int(number), int(refused), slowed / max(1.0, offered))


def run(day: Day, most_requests: int = MOST_REQUESTS) -> Course:
    chance = np.random.default_rng([day.seed, 1])
    course = Course(day, np.zeros(MARKS, dtype=bool), *[np.zeros((day.processes, MARKS)) for _ in range(8)])
    starts = np.arange(MARKS) * STEP
    _note_absences(course)
    _fill_by_formula(course, starts, chance)
    for first, end in _stretches(day, most_requests):
        _simulate(course, first, end, chance)
    _finish(course, chance)
    return course


def simulate_also(course: Course, start: float, until: float) -> None:
    """Simulates one more stretch, in seconds of the day, in place of the formulas."""
    chance = np.random.default_rng([course.day.seed, 2, int(start)])
    _simulate(course, max(0, int(start // STEP)), min(MARKS, int(until // STEP) + 1), chance)
    _finish(course, chance)


def _finish(course: Course, chance: np.random.Generator) -> None:
    """Adds what follows from the requests: exceptions, and the CPU time of others."""
    count = chance.poisson(EXCEPTIONS * course.requests.sum(axis=0))
    course.exceptions = np.minimum(count, course.requests.sum(axis=0))
    _share_cpus(course, np.arange(MARKS) * STEP)


def _note_absences(course: Course) -> None:
    """Notes when workers are away, and when nothing can be read."""
    course.up[:] = STEP
    for away in course.day.away:
        first, last = int(away.start // STEP), int(away.end // STEP)
        workers = slice(None) if away.worker is None else slice(away.worker, away.worker + 1)
        for mark in range(first, min(last, MARKS - 1) + 1):
            seconds = min(away.end, (mark + 1) * STEP) - max(away.start, mark * STEP)
            course.up[workers, mark] -= seconds
            if away.worker is None:
                course.observed[mark] -= seconds
        if last < MARKS:
            course.respawns[workers, last] += 1
            course.reloads[last] += away.worker is None
    np.maximum(course.up, 0.0, out=course.up)
    np.maximum(course.observed, 0.0, out=course.observed)


def _factor(day: Day, seconds: Array) -> Array:
    """How much longer computing takes than usual, beside a job or busy neighbours."""
    factor = np.ones_like(seconds)
    if day.job and day.job_takes == "cpu":
        factor[(seconds >= day.job.start) & (seconds < day.job.end)] *= day.job.factor
    for spell in day.neighbours:
        factor[(seconds >= spell.start) & (seconds < spell.end)] *= 1 + 0.4 * spell.factor
    return factor


def _job_threads(day: Day) -> int:
    return max(1, day.capacity // 4) if day.job and day.job_takes == "threads" else 0


def _fill_by_formula(course: Course, starts: Array, chance: np.random.Generator) -> None:
    day = course.day
    rate = day.rate(starts + STEP / 2)
    service = day.service * (1 - day.computing + day.computing * _factor(day, starts))
    threads = day.capacity
    most = threads / service
    usual = np.minimum(rate, 0.97 * most)
    wait = mean_wait(usual, threads, day.service, day.sigma)
    served = np.minimum(rate, most) * STEP
    weights = _shares(day)
    counts = chance.poisson(served[None, :] * weights[:, None])
    spread = np.sqrt(np.exp(day.sigma**2) - 1)
    noise = 1 + spread * chance.normal(size=counts.shape) / np.sqrt(np.maximum(counts, 1))
    seconds = np.minimum(counts * service * np.maximum(0.2, noise), day.threads * STEP)
    course.requests, course.running, course.busy = counts.astype(float), seconds, seconds.copy()
    factor = _factor(day, starts)
    course.cpu = seconds * day.computing / (1 - day.computing + day.computing * factor)
    course.cpu_wait = course.cpu * (factor - 1)
    backlog = _backlog(rate, most)
    course.queue = np.minimum(QUEUE, usual * wait + backlog) * STEP
    course.queue_full = np.where(backlog >= QUEUE, STEP, 0.0)
    course.length = np.round(backlog)
    course.full = part_delayed(usual, threads, day.service) * STEP
    course.offered = counts.sum(axis=0) + np.round(np.maximum(0.0, rate - most) * STEP)
    course.refused = np.where(backlog >= QUEUE, np.round(np.maximum(0.0, rate - most) * STEP), 0.0)
    course.waited = np.where(backlog / most > WAITED, course.offered - course.refused, 0.0)
    accepted = course.offered - course.refused
    course.slowed = np.where(backlog / most > max(NOTICED[0], day.service), accepted, 0.0)
    if day.threshold:
        course.slow = chance.poisson(counts.sum(axis=0) * part_slower(day.threshold, day.service, day.sigma))
        course.late = np.where(backlog / most > day.threshold, course.offered - course.refused - course.slow, 0.0)
    if day.job and (taken := _job_threads(day)):
        during = (starts >= day.job.start) & (starts < day.job.end)
        course.busy[:, during] += STEP * taken / day.processes


def _backlog(rate: Array, most: Array) -> Array:
    """The length of the queue where more requests come than are served, as a fluid."""
    grown = (rate - most) * STEP
    length = np.zeros_like(rate)
    if not np.any(grown > 0):
        return length
    now = 0.0
    for mark, growth in enumerate(grown.tolist()):
        now = min(float(QUEUE), max(0.0, now + growth))
        length[mark] = now
    return length


def _shares(day: Day) -> Array:
    """The parts of the requests that workers take: unequal where the last one to become free takes the next."""
    even = np.full(day.processes, 1 / day.processes)
    if not day.keen:
        return even
    use = min(1.0, day.peak * day.service / day.capacity)
    first = 0.6 ** np.arange(day.processes)
    return np.asarray((1 - use) * first / first.sum() + use * even)


def _stretches(day: Day, most_requests: int) -> Iterator[tuple[int, int]]:
    """The stretches that are simulated, as pairs of marks that do not overlap: the whole day, or around what happens,
    the deepest bursts and deploys first, as long as requests are left."""
    minutes = np.arange(0, DAY, 60.0)
    left = float(most_requests)
    if np.sum(day.rate(minutes)) * 60 <= left:
        yield 0, MARKS
        return
    bursts = sorted(day.bursts, key=lambda burst: -burst.factor)
    wanted = [(burst.start - 20, burst.end + 60) for burst in bursts]
    wanted += [(away.start - 10, away.end + 30) for away in day.away if away.worker is None or away.kind == "chain"]
    wanted += [(day.busiest + offset, day.busiest + offset + 60) for offset in range(-1800, 1800, 300)]
    taken = np.zeros(MARKS, dtype=bool)
    for start, end in wanted:
        first, last = max(0, int(start // STEP)), min(MARKS, int(end // STEP) + 1)
        cost = float(np.sum(day.rate(np.arange(first, last) * STEP)) * STEP)
        if cost <= left:
            left -= cost
            taken[first:last] = True
    edges = np.flatnonzero(np.diff(np.concatenate([[0], taken.astype(int), [0]])))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _simulate(course: Course, first: int, end: int, chance: np.random.Generator) -> None:
    """Replaces the figures of a stretch by those of a simulation, which begins a little before it, without requests."""
    day = course.day
    start, until = first * STEP, end * STEP
    lead = 0.0 if first == 0 else min(start, 5 + 10 * day.service)
    arrivals = _arrive(day, start - lead, until, chance)
    service = service_times(day, chance, len(arrivals))
    computing = service * day.computing
    rest = service - computing
    computing *= _factor(day, arrivals)
    arrivals, computing, rest = _add_job(day, arrivals, computing, rest, chance)
    served = serve(day, arrivals, computing, rest, chance)
    marks = np.arange(first, end + 1) * STEP
    _note_workers(course, served, marks, slice(first, end))
    _note_queue(course, served, slice(first, end), chance)
    _note_users(course, served, marks, slice(first, end))
    course.simulated[first:end] = True


def _arrive(day: Day, start: float, until: float, chance: np.random.Generator) -> Array:
    """Random arrivals (Poisson) at the day's rate, which is constant for a second."""
    seconds = np.arange(start, until)
    counts = chance.poisson(day.rate(seconds) * np.minimum(1.0, until - seconds))
    return np.asarray(np.sort(np.repeat(seconds, counts) + chance.random(int(counts.sum()))))


def _add_job(
    day: Day, arrivals: Array, computing: Array, rest: Array, chance: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Adds the requests of a nightly job that takes threads: the next one follows at once."""
    threads = _job_threads(day)
    if not threads or not len(arrivals) or not day.job:
        return arrivals, computing, rest
    begin, end = max(day.job.start, float(arrivals[0])), min(day.job.end, float(arrivals[-1]))
    own: list[float] = []
    lengths: list[float] = []
    for _ in range(threads):
        at = begin + chance.uniform(0, 5)
        while at < end:
            own.append(at)
            lengths.append(chance.uniform(*job_lasts(day)))
            at += lengths[-1] + 0.05
    every = np.concatenate([arrivals, own])
    order = np.argsort(every, kind="stable")
    length = np.array(lengths)
    return (
        every[order],
        np.concatenate([computing, 0.02 * length])[order],
        np.concatenate([rest, 0.98 * length])[order],
    )


def _note_workers(course: Course, served: Served, marks: Array, where: slice) -> None:
    seen = course.observed[where] / STEP
    for worker in range(course.day.processes):
        own = served.workers == worker
        starts, ends = np.sort(served.starts[own]), served.ends[own]
        order = np.argsort(ends)
        lengths, ends = (ends - served.starts[own])[order], ends[order]
        done = np.searchsorted(ends, marks, "right")
        begun = np.searchsorted(starts, marks, "right")
        course.requests[worker, where] = np.diff(done)
        course.running[worker, where] = np.diff(_sums(lengths)[done])
        area = begun * marks - _sums(starts)[begun] - done * marks + _sums(ends)[done]
        course.busy[worker, where] = np.diff(area) * seen
        order = np.argsort(served.computed[own])
        at, computing = served.computed[own][order], served.computing[own][order]
        factor = _factor(course.day, served.arrivals[own][order])
        upto = np.searchsorted(at, marks, "right")
        course.cpu[worker, where] = np.diff(_sums(computing / factor)[upto])
        course.cpu_wait[worker, where] = np.diff(_sums(computing - computing / factor)[upto])
        course.lock[worker, where] = np.diff(_sums(at - computing - served.starts[own][order])[upto])


def _sums(values: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(values)])


def _note_queue(course: Course, served: Served, where: slice, chance: np.random.Generator) -> None:
    """Samples the queue and the threads as the exporter does, at intervals with a jitter of a fifth."""
    count = (where.stop - where.start) * SAMPLES
    gap = STEP / SAMPLES
    times = where.start * STEP + gap * (np.arange(count) + 0.5 + 0.4 * (chance.random(count) - 0.5))
    begun = np.searchsorted(served.starts, times, "right")
    length = np.searchsorted(served.arrivals, times, "right") - begun
    busy = begun - np.searchsorted(np.sort(served.ends), times, "right")
    available = course.day.capacity * course.up[:, where].sum(axis=0) / (STEP * course.day.processes)
    full = busy >= np.repeat(np.ceil(available), SAMPLES)
    seen = course.observed[where]
    course.queue[where] = length.reshape(-1, SAMPLES).mean(axis=1) * seen
    course.queue_full[where] = (length >= QUEUE).reshape(-1, SAMPLES).mean(axis=1) * seen
    course.full[where] = full.reshape(-1, SAMPLES).mean(axis=1) * seen
    course.length[where] = length[SAMPLES - 1 :: SAMPLES]


def _note_users(course: Course, served: Served, marks: Array, where: slice) -> None:
    threshold = course.day.threshold
    waits, lengths = served.starts - served.arrivals, served.ends - served.starts
    course.refused[where] = np.histogram(served.refused, marks)[0]
    course.offered[where] = np.histogram(served.arrivals, marks)[0] + course.refused[where]
    course.waited[where] = np.histogram(served.arrivals[waits > WAITED], marks)[0]
    slowed = waits > max(NOTICED[0], course.day.service)
    course.slowed[where] = np.histogram(served.arrivals[slowed], marks)[0]
    if threshold:
        slow = lengths > threshold
        late = ~slow & (lengths + waits > threshold)
        course.slow[where] = np.histogram(served.ends[slow], marks)[0]
        course.late[where] = np.histogram(served.ends[late], marks)[0]


def _share_cpus(course: Course, starts: Array) -> None:
    """The CPU time of other programs, and what is idle. Where the workers and the others want more than there is, the
    kernel gives the workers what they want first: they want little."""
    day = course.day
    own = course.cpu.sum(axis=0)
    all_cpus = day.cpus * STEP
    wanted = np.full(MARKS, OTHERS * all_cpus)
    for spell in day.neighbours:
        wanted[(starts >= spell.start) & (starts < spell.end)] += spell.factor * all_cpus
    if day.job and day.job_takes == "cpu":
        wanted[(starts >= day.job.start) & (starts < day.job.end)] += STEP
    own = np.minimum(own, all_cpus)
    course.others = np.minimum(wanted, all_cpus - own)
    course.idle = all_cpus - own - course.others
