"""Simulates a server's requests one by one, through threads, interpreter locks and CPUs: the oracle of the closed form.

* A request holds one thread from its start to its end. With no thread free, it waits in one listen queue for all
  workers, first come, first served. Each worker with an idle thread is equally likely to get the next request, however
  many idle threads it has; or as likely as its share says.
* A request alternates between computing and waiting. Computing takes a CPU and, for its part under the lock, also the
  interpreter lock of the worker. Waiting takes only the thread.
* A request may hold a lock of the application, of its process or of all processes, besides the time for which it waits.
* The interpreter lock goes to the thread that waited longest. A thread that computes gives it up SWITCH_SECONDS after
  another began to wait (`sys.setswitchinterval`).
* All threads that compute share the CPUs evenly: processor sharing (L. Kleinrock, "Queueing Systems", volume 2, 1976,
  chapter 4). CPU time passes on a clock of its own, which runs as fast as one thread computes.
"""

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate
from math import fsum, inf, log

from msgspec import Struct


class System(Struct, frozen=True, kw_only=True):
    """The resources of a server, which its requests share."""

    processes: int
    threads: int
    """Of each process."""
    cpus: float
    shares: tuple[float, ...] = ()
    """For each worker, how likely it is to get a request, relative to the others. Empty: all are equally likely."""

    def choose_worker(self, idle: Sequence[int], chance: float) -> int:
        """Choose which of the workers with an idle thread gets the next request; returns its place in `idle`."""
        if not self.shares:
            return int(chance * len(idle))
        bounds = list(accumulate([self.shares[worker] for worker in idle]))
        return min(bisect_right(bounds, chance * bounds[-1]), len(idle) - 1)


class Work(Struct, frozen=True, kw_only=True):
    """What a mean request asks for, in seconds."""

    locked: float
    """CPU time under the interpreter lock."""
    unlocked: float
    """CPU time outside of it."""
    waiting: float
    serial: float = 0.0
    """The time for which it holds a lock of the application, besides `waiting`."""
    serial_is_shared: bool = False
    """Whether all processes share that lock."""
    factors: tuple[float, ...] = (1.0,)
    """A request takes the mean times one of these, which are equally likely; their mean is 1."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What a run gives after its warm-up."""

    throughput: float
    """Completed requests per second."""
    service: tuple[float, ...]
    """For each completed request, the seconds in which it held its thread."""
    total: tuple[float, ...]
    """The same, with its time in the listen queue."""
    busy: float
    """Mean threads in service."""
    lock_waiters: float
    """Mean threads that wait for the interpreter lock."""


def exponential_factors(count: int = 400) -> tuple[float, ...]:
    """Factors of an exponential distribution, at even distances of their rank, whose mean is 1. Each request of a run
    takes one from a shuffled deck, and then none twice until all were taken."""
    values = [-log(1 - (number + 0.5) / count) for number in range(count)]
    return tuple(value * count / fsum(values) for value in values)


SWITCH_SECONDS = 0.005
"""CPython's switch interval, unless the application changes it."""

_MOST_SLICES = 8
"""The most slices of a mean burst under the lock: more of them change no figure and take long to simulate."""

_INTERVALS = exponential_factors(1000)


class _Request:
    """left: seconds under the lock that its present slice leaves. ends: the end of its slice on the clock of CPU time.
    entry: the number of its valid entry in the heap. phase: bursts of computing that are over. holds: whether it holds
    the lock of the application."""

    __slots__ = ("arrived", "ends", "entry", "factor", "holds", "left", "phase", "started", "worker")

    def __init__(self, arrived: float, factor: float) -> None:
        self.arrived, self.factor = arrived, factor
        self.started = self.left = self.ends = 0.0
        self.worker = self.entry = self.phase = 0
        self.holds = False


class Simulation:
    """One run."""

    def __init__(self, system: System, work: Work, seed: int) -> None:
        self._system, self._work = system, work
        self._chance = random.Random(seed)
        self._bursts = 2 if work.waiting or work.serial else 1
        self._locked, self._unlocked = work.locked / self._bursts, work.unlocked / self._bursts
        self._least_slice = self._locked / _MOST_SLICES
        # By how many threads compute; without any, the clock of CPU time runs at full speed.
        self._speeds = [1.0, *(min(1.0, system.cpus / n) for n in range(1, system.processes * system.threads + 1))]
        self._rate: float | None = None
        self._now = self._cpu_now = 0.0
        self._next_arrival = inf
        self._slices: list[tuple[float, int, _Request]] = []
        self._waits: list[tuple[float, int, _Request]] = []
        self._entries = 0
        self._holders: list[_Request | None] = [None] * system.processes
        self._lock_queues: list[deque[_Request]] = [deque() for _ in range(system.processes)]
        locks = 1 if work.serial_is_shared else system.processes
        self._serial_held = [False] * locks
        self._serial_queues: list[deque[_Request]] = [deque() for _ in range(locks)]
        self._idle = [system.threads] * system.processes
        self._workers_with_idle = list(range(system.processes))
        self._listen_queue: deque[_Request] = deque()
        self._busy = self._lock_waiters = self._running = 0
        self._service: list[float] = []
        self._total: list[float] = []
        self._factors: list[float] = []
        self._intervals: list[float] = []

    def run(self, requests: int, rate: float | None = None, warm_up: int = 0) -> Outcome:
        """Run until this many requests are complete after the warm-up. rate: arrivals per second, at random (Poisson);
        None: the listen queue never runs empty."""
        self._rate = rate
        if rate is None:
            for _ in range(self._system.processes * self._system.threads):
                self._begin(self._new_request())
        else:
            self._next_arrival = self._draw_interval(rate)
        self._advance(warm_up)
        began = self._now
        self._service.clear()
        self._total.clear()
        busy, lock_waiters = self._advance(requests)
        length = self._now - began
        return Outcome(
            throughput=requests / length,
            service=tuple(self._service),
            total=tuple(self._total),
            busy=busy / length,
            lock_waiters=lock_waiters / length,
        )

    def _advance(self, requests: int) -> tuple[float, float]:
        """Run until this many requests are complete; returns integrals of the busy threads and of those that wait for
        an interpreter lock."""
        slices, waits, speeds, ended = self._slices, self._waits, self._speeds, self._service
        busy = lock_waiters = 0.0
        while len(ended) < requests:
            speed = speeds[self._running]
            slice_ends = self._now + (slices[0][0] - self._cpu_now) / speed if slices else inf
            wait_ends = waits[0][0] if waits else inf
            now = min(slice_ends, wait_ends, self._next_arrival)
            step = now - self._now
            busy += step * self._busy
            lock_waiters += step * self._lock_waiters
            self._now = now
            self._cpu_now += step * speed
            if now == slice_ends:
                _, entry, request = heappop(slices)
                if request.entry == entry:
                    self._end_slice(request)
            elif now == wait_ends:
                self._end_wait(heappop(waits)[2])
            else:
                self._arrive()
        return busy, lock_waiters

    def _arrive(self) -> None:
        assert self._rate is not None
        self._next_arrival += self._draw_interval(self._rate)
        request = self._new_request()
        if self._workers_with_idle:
            self._begin(request)
        else:
            self._listen_queue.append(request)

    def _new_request(self) -> _Request:
        """A request with a factor from a shuffled deck: the mean of the factors is then nearly exact."""
        if not self._factors:
            self._factors = list(self._work.factors)
            self._chance.shuffle(self._factors)
        return _Request(self._now, self._factors.pop())

    def _draw_interval(self, rate: float) -> float:
        """An exponential interval, from a shuffled deck as well."""
        if not self._intervals:
            self._intervals = list(_INTERVALS)
            self._chance.shuffle(self._intervals)
        return self._intervals.pop() / rate

    def _begin(self, request: _Request) -> None:
        """A request gets a thread."""
        workers = self._workers_with_idle
        place = self._system.choose_worker(workers, self._chance.random())
        worker = workers[place]
        self._idle[worker] -= 1
        if not self._idle[worker]:
            workers[place] = workers[-1]
            workers.pop()
        self._busy += 1
        request.worker, request.started = worker, self._now
        self._compute(request)

    def _compute(self, request: _Request) -> None:
        """A request begins a burst of computing: first under the lock."""
        request.left = self._locked * request.factor
        holder = self._holders[request.worker]
        if holder is None:
            self._holders[request.worker] = request
            self._run_slice(request, request.left)
            return
        queue = self._lock_queues[request.worker]
        queue.append(request)
        self._lock_waiters += 1
        if len(queue) == 1:
            self._cut_slice(holder)

    def _run_slice(self, request: _Request, seconds: float) -> None:
        self._running += 1
        request.left = 0.0
        self._schedule(request, self._cpu_now + seconds)

    def _schedule(self, request: _Request, ends: float) -> None:
        self._entries += 1
        request.entry, request.ends = self._entries, ends
        heappush(self._slices, (ends, self._entries, request))

    def _cut_slice(self, holder: _Request) -> None:
        """Another thread waits for the lock: its holder keeps it for one more switch interval at most."""
        ends = self._cpu_now + max(self._least_slice, SWITCH_SECONDS * self._speeds[self._running])
        if holder.ends > ends:
            holder.left = holder.ends - ends
            self._schedule(holder, ends)

    def _end_slice(self, request: _Request) -> None:
        self._running -= 1
        if self._holders[request.worker] is request:
            self._pass_lock(request)
            if request.left:
                return
            if self._unlocked:
                self._run_slice(request, self._unlocked * request.factor)
                return
        self._end_burst(request)

    def _pass_lock(self, request: _Request) -> None:
        """The lock goes to the next thread; a request that is not done with it waits again."""
        worker = request.worker
        queue = self._lock_queues[worker]
        if not queue:
            self._holders[worker] = None
            return
        following = queue.popleft()
        self._holders[worker] = following
        if request.left:
            queue.append(request)
        else:
            self._lock_waiters -= 1
        self._run_slice(following, following.left)
        if queue:
            self._cut_slice(following)

    def _pause(self, request: _Request, seconds: float) -> None:
        self._entries += 1
        heappush(self._waits, (self._now + seconds * request.factor, self._entries, request))

    def _end_wait(self, request: _Request) -> None:
        """A wait is over: the request releases the lock of the application, or computes."""
        if not request.holds:
            self._compute(request)
            return
        request.holds = False
        lock = 0 if self._work.serial_is_shared else request.worker
        if self._serial_queues[lock]:
            self._hold_serial(self._serial_queues[lock].popleft())
        else:
            self._serial_held[lock] = False
        self._pause(request, self._work.waiting)

    def _take_serial(self, request: _Request) -> None:
        """A request needs the lock of the application."""
        lock = 0 if self._work.serial_is_shared else request.worker
        if self._serial_held[lock]:
            self._serial_queues[lock].append(request)
        else:
            self._serial_held[lock] = True
            self._hold_serial(request)

    def _hold_serial(self, request: _Request) -> None:
        request.holds = True
        self._pause(request, self._work.serial)

    def _end_burst(self, request: _Request) -> None:
        """A burst of computing is over: the request waits, or ends."""
        request.phase += 1
        if request.phase == 1 and self._work.serial:
            self._take_serial(request)
            return
        if request.phase < self._bursts:
            self._pause(request, self._work.waiting)
            return
        self._service.append(self._now - request.started)
        self._total.append(self._now - request.arrived)
        self._busy -= 1
        self._idle[request.worker] += 1
        if self._idle[request.worker] == 1:
            self._workers_with_idle.append(request.worker)
        if self._rate is None:
            self._begin(self._new_request())
        elif self._listen_queue:
            self._begin(self._listen_queue.popleft())
