"""Integrates readings into totals that never decrease: counters, in Prometheus's terms, made from samples.

Only totals show what happens between two scrapes, and they aggregate: any number of Prometheus servers can take rates
of them, at any interval. Rules of this module:

* Between two samples a level (busy threads, queue length, threads that wait) is assumed to change linearly. Over
  jittered samples the error is random and averages out: it is sqrt(L/n)/L for n samples of a mean level L.
* A time without samples (a failed read, a pause longer than `longest_step`, a full reload) is a gap: it counts as gap
  time and adds nothing to the integral of any level. uWSGI's own counters survive a gap.
* Only a full reload resets uWSGI's counters (`reloads`). Any other decrease is due to a race in uWSGI (two threads, one
  unlocked ++) and adds nothing, unless it is too large for a race.
* No worker adds more running time than its threads can have served; see `ServiceTime`.
* Whether requests bring answers shows in the bytes that uWSGI has sent; see `Unanswered`.
* CPU time is counted per process and restarts with each new process; `CpuUse` compares it with the server's CPUs.

"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from operator import attrgetter, sub
from typing import NamedTuple

from msgspec.structs import replace

from uwsgi_headroom.history.counts import OCCUPANCY_BOUNDS, sum_if_all_known
from uwsgi_headroom.history.derived import CpuUse, ServiceTime, Unanswered
from uwsgi_headroom.history.named_hours import add_route_time
from uwsgi_headroom.history.response_times.queue_waits import Left, QueueFollower
from uwsgi_headroom.history.response_times.recorder import Completed, ResponseTimeRecorder
from uwsgi_headroom.history.response_times.totals import ROUNDING
from uwsgi_headroom.history.totals import Totals, WorkerTotals
from uwsgi_headroom.history.wait_time import add_waits, note_since
from uwsgi_headroom.history.window import QUANTITIES, WORKER
from uwsgi_headroom.kernel.backlogs import ListenOverflows
from uwsgi_headroom.kernel.facts import HostFacts
from uwsgi_headroom.kernel.processes import Threads, WorkerProcess
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Backlog, Setup, is_tcp
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.stats.server import Worker


class Integrals:
    """The totals of one server, and the last sample, from which the next step begins. Times are monotonic seconds.
    threshold: of the server's objective."""

    def __init__(self, threshold: float | None = None) -> None:
        self.totals = Totals()
        self._before: tuple[Reading, Snapshot] | None = None
        self._levels = _NO_LEVELS  # at the last sample
        self._until: float | None = None  # the end of the time that is accounted for
        self._broken = True  # whether no sample precedes the next one without a failed read
        self._service_time = ServiceTime()
        self._cpu_use = CpuUse()
        self.response_times = ResponseTimeRecorder(threshold)
        self._removed = WorkerTotals(running_time=0.0)  # of workers that a reload has removed
        self._completed = Completed()
        self._queues: dict[str, Backlog] = {}  # at the last sample
        self._may_overflow = False  # whether a queue was full since the overflows were last read
        self._brims = False  # whether, at the last sample, a queue held one connection more than its limit
        self._waits_beside_free = False  # whether, at the last sample, a request waited although a thread was free
        self._unanswered = Unanswered()
        self._follower = QueueFollower()
        self._unlisted = 0.0  # seconds since the last sample that listed all connections
        self._accepted = 0  # requests that were accepted until the last sample
        self._taken: list[int] = []  # the same by worker
        self._queued: float | None = None  # the integral of the length of all queues, also of those that are gone

    @property
    def is_at_rest(self) -> bool:
        """Whether nobody was served and nobody waited at the last sample: samples that equal it may be added as one."""
        is_idle = self._levels.taken == 0 < self._levels.available
        return is_idle and not any(backlog.queue for backlog in self._queues.values())

    def miss(self, at: float) -> None:
        """Record a failed read: the time since the last outcome is a gap, and so is the time until the next sample."""
        self._gap_to(at)
        self._broken = True

    def add(self, reading: Reading, longest_step: float, samples: int = 1) -> None:
        """Add a sample, or the last of several that equal each other. A reading of an emperor or router, or one not
        newer than the last outcome, adds nothing."""
        snapshot = reading.snapshot
        if not isinstance(snapshot, Snapshot) or (self._until is not None and reading.at <= self._until):
            return
        totals, workers = self.totals, snapshot.workers
        totals.is_counted = snapshot.source == "stats"
        before, earlier = self._before or (replace(reading, host=HostFacts()), snapshot)  # the first grows by nothing
        at_rest = reading.has_same_workers(before)
        reloaded = not at_rest and is_reloaded(earlier, snapshot)
        totals.reloads += reloaded
        # A document without workers (uWSGI has not created them yet) has no levels from which a step could begin.
        joined = len(earlier.workers) == len(workers) and not self._broken and not reloaded
        bridged = joined and not _lacks_busy_threads(totals, workers) and reading.at - before.at <= longest_step
        step = bridged * (reading.at - before.at)
        levels = self._levels
        if not (at_rest and bridged):
            self._set_slots(len(workers))
            self._add_workers(earlier.workers, workers, before, reading, reloaded=reloaded)
            levels = _find_levels(reading, workers)
            self._completed = _completed([self._removed, *totals.workers])
        self._cpu_use.add(totals, reading, workers, bridged=bridged)
        self._service_time.note(reading, workers)
        if snapshot is not earlier or reading.host.spooled is not before.host.spooled:
            spooled = reading.host.spooled
            totals.configured = sum_if_all_known([worker.threads for worker in workers])
            totals.available = sum_if_all_known([worker.available_threads for worker in workers])
            totals.spooled = sum_if_all_known(
                [spooled.get(name) for name in {spooler.directory for spooler in snapshot.spoolers}]
            )
            _add_parts(totals, earlier, snapshot, reloaded=reloaded)
        _add_levels(totals, self._levels if bridged else levels, levels, step)
        if bridged:
            totals.observed_seconds += step
            self._until = reading.at
        else:
            self._gap_to(reading.at)
        self._add_queues(reading, step)
        self._add_idle_queue(reading.host.setup, levels, step)
        self._unanswered.add(totals, workers, joined=joined)
        self._add_overflows(before.host.overflows, reading.host.overflows)
        _add_kernel_counts(totals, before.host, reading.host)
        add_waits(totals, before.host.waits, reading.host.waits, reading.at, step)
        totals.routes = add_route_time(totals.routes, before, reading, step)
        if levels.available:
            ratio = min(1.0, levels.busy / levels.available)
            totals.occupancy[bisect_left(OCCUPANCY_BOUNDS, ratio)] += samples
            totals.occupancy_sum += samples * ratio
        left, accepted = self._follow_queues(reading, levels, step, reloaded=reloaded)
        if totals.is_counted:
            self.response_times.add(
                reading,
                workers,
                Completed(*self._completed[:4], self._queued, totals.refused, totals.reloads),
                joined=bridged,
                left=left,
                accepted=accepted,
                samples=samples,
            )
        totals.response_times = self.response_times.totals
        self._add_misses()
        totals.samples += samples
        self._before, self._levels, self._broken = (reading, snapshot), levels, False

    def add_partial(self, reading: Reading) -> None:
        """Add a sample between two others, of which response times alone take what it shows. One that does not follow
        the last sample without a failed read or a reload adds nothing."""
        if self._before is None or self._broken or not isinstance(reading.snapshot, Snapshot):
            return
        then, workers = self._before[1].workers, reading.snapshot.workers
        if len(then) == len(workers) and not is_reload(then, workers):
            self.response_times.follow(reading, workers)

    def _set_slots(self, number: int) -> None:
        workers = self.totals.workers
        workers += map(WorkerTotals, range(len(workers) + 1, number + 1))
        for gone in workers[number:]:
            self._removed.requests += gone.requests
            self._removed.static_requests += gone.static_requests
            self._removed.running_time = (self._removed.running_time or 0.0) + (gone.running_time or 0.0)
            self._removed.lost += gone.lost
        del workers[number:]

    def _add_workers(
        self,
        earlier: tuple[Worker, ...],
        workers: tuple[Worker, ...],
        before: Reading,
        reading: Reading,
        *,
        reloaded: bool,
    ) -> None:
        """Add the growth of each worker's own figures since the reading before, of which `earlier` are the workers."""
        for total, then, now in zip_longest(self.totals.workers, earlier[: len(workers)], workers):
            # An unchanged document has the same Worker objects, and none of their figures has changed.
            if self.totals.samples and now is then and _is_as_before(now.pid or 0, before.host, reading.host):
                continue
            _add_counters(total, then, now, reloaded, self._service_time.bound(now, reading.at))
            is_new = then is None or now.pid != then.pid or now.last_spawn != then.last_spawn
            if then and not reloaded:
                total.lost += _count_lost(then, now, before, reading)
            if is_new:
                total.ended_kilobytes, total.peak_kilobytes = total.peak_kilobytes or total.ended_kilobytes, None
            of_last = 1024 * total.ended_kilobytes * (now.state == "starting")
            _add_process(total, before.host, reading, now.pid or 0, is_new=is_new, of_last=of_last)
            if now.resident_bytes is not None:
                _add_memory_growth(total, now.resident_bytes // 1024)
            if threads := reading.host.threads.get(now.pid or 0):
                _add_residency(total, before.host.threads.get(now.pid or 0, {}), threads)
            for name, since in _KNOWN_SINCE:
                if (getattr(now, name) is None) != (getattr(total, since) is None):
                    note_since(total, since, reading.at, is_known=getattr(now, name) is not None)

    def _gap_to(self, at: float) -> None:
        if self._until is None:
            self._until = at
        self.totals.gap_seconds += max(0.0, at - self._until)
        self._until = max(at, self._until)

    def _add_queues(self, reading: Reading, step: float) -> None:
        totals = self.totals
        earlier, queues = self._queues, reading.listen_queues()
        self._queues = queues
        for gone in totals.queue_seconds.keys() - queues.keys():
            for by_socket in (totals.queue_seconds, totals.queue_full_seconds, totals.queue_since):
                by_socket.pop(gone, None)
        for name, backlog in queues.items():
            if backlog.queue is None:
                totals.queue_since.pop(name, None)
                continue
            totals.queue_since.setdefault(name, reading.at)
            then = earlier.get(name)
            area = full = 0.0
            self._queued = self._queued or 0.0
            self._may_overflow |= backlog.is_full and is_tcp(name)
            if then and then.queue is not None:
                area = step * (then.queue + backlog.queue) / 2
                self._queued += area
                full = step * (then.is_full + backlog.is_full) / 2
            totals.queue_seconds[name] = totals.queue_seconds.get(name, 0.0) + area
            totals.queue_full_seconds[name] = totals.queue_full_seconds.get(name, 0.0) + full

    def _follow_queues(
        self, reading: Reading, levels: _Levels, step: float, *, reloaded: bool
    ) -> tuple[list[Left], int]:
        """Return the requests that left a listen queue in the step, and how many were accepted in all."""
        if not self.totals.is_counted:
            return self._follow_listed(reading, step), 0
        taken = self._completed.with_static + self._completed.lost + levels.busy
        accepted = max(0, taken - self._accepted)
        # What ended without being counted, such as a client that sent nothing, was accepted, too: it is not taken back.
        self._accepted = taken if reloaded else self._accepted + accepted
        own = self._count_by_socket(reading, levels, reloaded=reloaded)
        left = self._follower.follow(reading.at, step, self._queues, reading.host.waiting, accepted, own)
        self.totals.oldest_waits = self._follower.oldest()
        return left, accepted

    def _follow_listed(self, reading: Reading, step: float) -> list[Left]:
        """The requests that left a listen queue since the last sample that listed all of them: without uWSGI's count,
        the length of a queue does not say who left it."""
        totals, listed = self.totals, reading.host.waiting
        self._unlisted = step and self._unlisted + step
        lists = [listed.get(name) for name, backlog in self._queues.items() if backlog.queue]
        if not all(each and each.is_complete for each in lists):
            return []
        left = self._follower.follow(reading.at, self._unlisted, self._queues, listed, 0)
        self._unlisted, totals.oldest_waits = 0.0, self._follower.oldest()
        waits = [each.seconds for each in left if each.seconds is not None]
        totals.queue_lists = (totals.queue_lists or 0) + 1
        totals.queue_left = (totals.queue_left or 0) + len(left)
        totals.queue_left_timed = (totals.queue_left_timed or 0) + len(waits)
        totals.queue_left_seconds = (totals.queue_left_seconds or 0.0) + sum(waits)
        return left

    def _count_by_socket(self, reading: Reading, levels: _Levels, *, reloaded: bool) -> dict[str, int]:
        """How many requests were accepted in the step from each socket whose workers serve no other (`map-socket`)."""
        setup = reading.host.setup
        if not setup or not setup.mapped or not setup.socket_holders:
            self._taken = []
            return {}
        pairs = zip(self.totals.workers, levels.workers, strict=True)
        now = [total.requests + total.lost + (busy or 0) for total, (busy, _) in pairs]
        before = now if len(self._taken) != len(now) else self._taken
        self._taken = now if reloaded else list(map(max, before, now))
        accepted = dict(enumerate(map(sub, self._taken, before), 1))
        served = Counter(chain.from_iterable(setup.socket_holders.values()))
        return {
            socket: sum([max(0, accepted.get(worker_id, 0)) for worker_id in workers])
            for socket, workers in setup.socket_holders.items()
            if all(served[worker_id] == 1 for worker_id in workers)
        }

    def _add_idle_queue(self, setup: Setup | None, levels: _Levels, step: float) -> None:
        """Add the time in which requests waited although a thread was free: at both ends of the step, because a request
        that was just about to be accepted waits at one of them."""
        lengths = [backlog.queue for backlog in self._queues.values()]
        waiting = [name for name, backlog in self._queues.items() if backlog.queue]
        then, self._waits_beside_free = self._waits_beside_free, bool(waiting) and _is_one_free(setup, levels, waiting)
        brimmed = self._brims
        self._brims = any((each.queue or 0) > each.limit for each in self._queues.values() if each.limit)
        if lengths and None not in lengths:
            brimming = step * (brimmed + self._brims) / 2
            self.totals.brimming_seconds = (self.totals.brimming_seconds or 0.0) + brimming
        if lengths and None not in lengths and levels.available:
            both = then and self._waits_beside_free
            self.totals.idle_queue_seconds = (self.totals.idle_queue_seconds or 0.0) + step * both

    def _add_misses(self) -> None:
        """Update what counts for the objective. Each of the numbers is rounded down, so that none decreases."""
        misses, totals = self.response_times.misses, self.totals
        if misses is None or totals.response_times is None:
            return
        counted = [int(number + ROUNDING) for number in misses.total]
        totals.judged, totals.missed_slow, totals.missed_waited, totals.missed_lost, totals.missed_refused = counted

    def _add_overflows(self, then: ListenOverflows | None, now: ListenOverflows | None) -> None:
        if now is None:
            return
        grown = max(0, now.overflows - (then or now).overflows)
        own = grown * (self._may_overflow or bool(now.alone))
        self.totals.overflows = (self.totals.overflows or 0) + grown
        self.totals.refused = (self.totals.refused or 0) + own
        self._may_overflow &= now is then
        if now.opened is not None:
            since = (then and then.opened is not None and then) or now
            made = max(0, now.opened - (since.opened or 0))
            self.totals.connections = (self.totals.connections or 0) + made
            self.totals.connections_seconds = (self.totals.connections_seconds or 0.0) + now.at - since.at


def _is_one_free(setup: Setup | None, levels: _Levels, sockets: list[str]) -> bool:
    """Whether a thread is free that takes requests from one of these sockets; of a mapped one, only some threads do."""
    if levels.taken >= levels.available or not setup or not setup.mapped or not setup.socket_holders:
        return levels.taken < levels.available
    return any(levels.free.intersection(setup.socket_holders.get(name, levels.free)) for name in sockets)


def _add_kernel_counts(totals: Totals, then: HostFacts, now: HostFacts) -> None:
    """Add the growth of the kernel's counts, which grow during a gap as well. Counts that fall have begun anew."""
    quota, tracked, kills = now.throttling, now.tracked, now.oom_kills
    if quota and quota is not then.throttling:
        since = then.throttling or quota
        if since.periods > quota.periods:
            since = quota
        totals.quota_periods = (totals.quota_periods or 0) + quota.periods - since.periods
        totals.throttled_periods = (totals.throttled_periods or 0) + quota.throttled_periods - since.throttled_periods
        totals.throttled_seconds = (totals.throttled_seconds or 0.0) + quota.throttled_seconds - since.throttled_seconds
    if tracked and tracked is not then.tracked:
        totals.untracked = (totals.untracked or 0) + max(0, tracked.dropped - (then.tracked or tracked).dropped)
    if kills and kills is not then.oom_kills:  # of its cgroup, or of the host if that is not counted
        place = "host" if kills.cgroup is None else "cgroup"
        before, after = getattr(then.oom_kills, place, None), getattr(kills, place)
        if after is not None:
            totals.oom_kills = (totals.oom_kills or 0) + (0 if before is None else max(0, after - before))


class _Levels(NamedTuple):
    """Levels at one instant. workers: for each, its busy threads (None if uWSGI omits threads), and whether it accepts
    requests; busy, available: threads of all workers, both 0 if uWSGI omits threads; taken: busy ones, and those that
    run a handler of a uWSGI signal; starting: workers that have a process and do not accept requests yet; free: the
    numbers of the workers that have a free thread."""

    workers: list[tuple[int | None, bool]]
    busy: int
    taken: int
    available: int
    starting: int
    free: frozenset[int]

    @property
    def is_full(self) -> bool:
        return self.taken >= self.available > 0

    @property
    def accepts(self) -> bool:
        return any(accepting for _, accepting in self.workers)


_NO_LEVELS = _Levels([], 0, 0, 0, 0, frozenset())


def _lacks_busy_threads(totals: Totals, workers: tuple[Worker, ...]) -> bool:
    """Whether it is not known any more how many threads are busy: that time is a gap, too."""
    is_unknown = any(worker.busy_threads is None for worker in workers)
    return is_unknown and any(total.busy_seconds is not None for total in totals.workers)


def _find_levels(reading: Reading, workers: tuple[Worker, ...]) -> _Levels:
    levels = [(reading.busy_threads(worker), worker.accepting) for worker in workers]
    is_known = all(busy is not None for busy, _ in levels)
    available = sum([worker.available_threads or 0 for worker in workers]) if is_known else 0
    starting = sum([worker.state == "starting" for worker in workers])
    taken = [(busy or 0) + (worker.state == "signal") for worker, (busy, _) in zip(workers, levels, strict=True)]
    pairs = zip(workers, taken, strict=True)
    free = frozenset([worker.worker_id for worker, threads in pairs if threads < (worker.available_threads or 0)])
    return _Levels(levels, sum([busy or 0 for busy, _ in levels]), sum(taken), available, starting, free)


def _add_levels(totals: Totals, then: _Levels, now: _Levels, step: float) -> None:
    """Add the integral over the `step` seconds between two samples to the totals, by linear interpolation. A step of 0
    adds no time; it only turns totals that become known from None to 0."""
    half = step / 2
    for total, (busy_then, up_then), (busy, up) in zip(totals.workers, then.workers, now.workers, strict=True):
        if busy is not None:
            area = 0.0 if busy_then is None else half * (busy_then + busy)
            total.busy_seconds = (total.busy_seconds or 0.0) + area
        total.up_seconds += half * (up_then + up)
    totals.full_seconds += half * (then.is_full + now.is_full)
    if now.workers:
        none = not now.accepts and not then.accepts
        totals.no_worker_seconds = (totals.no_worker_seconds or 0.0) + step * none
    if now.workers and totals.is_counted:
        totals.starting_seconds = (totals.starting_seconds or 0.0) + half * (then.starting + now.starting)
        handling = then.taken - then.busy + now.taken - now.busy
        totals.handler_seconds = (totals.handler_seconds or 0.0) + half * handling


_PARTS = (
    ("cache_full", attrgetter("caches"), attrgetter("name", "full")),
    ("spooler_tasks", attrgetter("spoolers"), attrgetter("directory", "tasks")),
    ("spooler_respawns", attrgetter("spoolers"), attrgetter("directory", "respawns")),
)
"""The totals of uWSGI's counters of its parts: the parts, and the name and counter of each."""


def _add_parts(totals: Totals, then: Snapshot, now: Snapshot, *, reloaded: bool) -> None:
    """Add the growth of the counters of caches and spoolers, by their names. A counter that falls was reset, as by a
    cache that was cleared; a name that is new counts from 0 only after a full reload."""
    for name, get_parts, get_counter in _PARTS:
        if not get_parts(now):
            continue
        after = _sum_by_name(map(get_counter, get_parts(now)))
        before = dict.fromkeys(after, 0) if reloaded else _sum_by_name(map(get_counter, get_parts(then)))
        grown = sum([max(0, number - before.get(part, number)) for part, number in after.items()])
        setattr(totals, name, (getattr(totals, name) or 0) + grown)


def _sum_by_name(pairs: Iterable[tuple[str, int | None]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for name, number in pairs:
        sums[name] = sums.get(name, 0) + (number or 0)
    return sums


def _completed(workers: Sequence[WorkerTotals]) -> Completed:
    return Completed(
        requests=sum([worker.requests - worker.static_requests for worker in workers]),
        seconds=sum_if_all_known([worker.running_time for worker in workers]),
        lost=sum([worker.lost for worker in workers]),
        with_static=sum([worker.requests for worker in workers]),
    )


def _is_as_before(pid: int, then: HostFacts, now: HostFacts) -> bool:
    """Whether the kernel's facts about a worker are unchanged, as for most workers most of the time."""
    return then.off == now.off and not now.threads and then.processes.get(pid) is now.processes.get(pid)


_COUNTERS = tuple(dict.fromkeys(each.name for each in chain(*QUANTITIES) if each.counter and each.kind == "count"))
_get_counters = attrgetter(*_COUNTERS)


def _add_counters(
    total: WorkerTotals, then: Worker | None, now: Worker, reloaded: bool, most_running_time: float
) -> None:
    """Add the growth of uWSGI's own counters. After a reload they count from 0, also in slots that the reload added."""
    if now.running_time is not None:
        total.running_time = total.running_time or 0.0
    if then is None:
        if not reloaded:
            return
        then = now
    for name, before, after in zip(_COUNTERS, _get_counters(then), _get_counters(now), strict=True):
        if after is not None and (reloaded or after != before):
            setattr(total, name, (getattr(total, name) or 0) + int(_increase(before, after, reloaded)))
    if total.running_time is not None:
        total.running_time += min(most_running_time, _increase(then.running_time, now.running_time, reloaded))


def _count_lost(then: Worker, now: Worker, before: Reading, reading: Reading) -> int:
    """The requests in service at the last sample of a process that has ended since, minus those that it completed
    after the sample. uWSGI counts the requests of the next process separately. If more began than were completed or are
    in service, these are lost: requests too short for a sample to see. A busy thread may not have begun its own."""
    ended = now.pid != then.pid or (reading.process_is_missing(now) and not before.process_is_missing(then))
    if not ended or then.requests is None:
        return 0
    busy = before.busy_threads(then) or 0
    completed = int(_increase(then.requests, now.requests, reloaded=False))
    of_successor = now.requests_since_spawn or 0 if now.pid and now.pid != then.pid else 0
    seen = max(0, busy - max(0, completed - of_successor))
    # What the applications began; with `lazy-apps`, that counts from 0 in each process.
    begun_then, begun_now = (sum([app.requests or 0 for app in worker.apps]) for worker in (then, now))
    begun = begun_now - begun_then - (reading.busy_threads(now) or 0)
    ends = max(1, (now.respawns or 0) - (then.respawns or 0))
    return max(seen, min(begun - completed, ends * (now.threads or 1)))


def _increase(then: float | None, now: float | None, reloaded: bool) -> float:
    if now is None:
        return 0
    if reloaded:
        return now
    return 0 if then is None else max(0, now - then)


def _add_process(
    total: WorkerTotals, before: HostFacts, reading: Reading, pid: int, *, is_new: bool, of_last: int
) -> None:
    """Add the CPU time of a worker's process, and take its levels. is_new: whether the process has begun since the
    reading before; of one that is known for the first time, what it used before is left out. of_last: the
    bytes of the process before, while this one loads its application and has not yet the memory of a worker; else 0."""
    process = reading.host.processes.get(pid)
    times = _cpu_times(process)
    is_known = reading.host.off is None and (process is None or times is not None)  # without a process it uses none
    if is_known == (total.cpu_since is None):
        note_since(total, "cpu_since", reading.at, is_known=is_known)
    if process is not None:
        total.resident_bytes = of_last or process.resident_bytes or None  # a process that is ending has none
        total.process_threads = process.threads
    if times is None:
        return
    then = (0.0, 0.0, 0.0) if is_new else _cpu_times(before.processes.get(pid))
    used, in_kernel, by_children = map(sub, times, then or times)
    total.cpu_seconds = (total.cpu_seconds or 0.0) + max(0.0, used)
    total.system_seconds = (total.system_seconds or 0.0) + max(0.0, min(in_kernel, used))
    total.children_cpu_seconds += max(0.0, by_children)


def _cpu_times(process: WorkerProcess | None) -> tuple[float, float, float] | None:
    """CPU seconds of a process, those of them in the kernel, and those of its children; None if unknown."""
    if process is None or process.cpu_user_seconds is None or process.cpu_system_seconds is None:
        return None
    system = process.cpu_system_seconds
    return process.cpu_user_seconds + system, system, process.children_cpu_seconds or 0.0


def _add_residency(total: WorkerTotals, then: Threads, now: Threads) -> None:
    """Attribute the CPU time of each thread since the last reading to the CPU on which it runs now."""
    for thread, (cpu, seconds) in now.items():
        if thread in then:
            used = max(0.0, seconds - then[thread][1])
            total.residency[cpu] = total.residency.get(cpu, 0.0) + used


def _add_memory_growth(total: WorkerTotals, resident: int) -> None:
    """Add how far the memory of the present process (kilobytes), as uWSGI reports it after each request, rose above its
    highest. A process begins with what it has after its first request: a fork loads pages that it shared before. The
    sum of these rises is what was lost to a leak, however often a limit of memory ends the process."""
    peak = resident if total.peak_kilobytes is None else max(total.peak_kilobytes, resident)
    total.grown_kilobytes = (total.grown_kilobytes or 0) + peak - (total.peak_kilobytes or peak)
    total.peak_kilobytes = peak


_KNOWN_SINCE = [(each.name, each.known) for each in WORKER if each.counter and each.known]
"""uWSGI's counters that a document may not have."""


LARGEST_RACE = 16
"""The largest decrease of a worker's own request count that may be due to a race. One or two are plausible."""


def is_reloaded(before: Snapshot, now: Snapshot) -> bool:
    """Whether uWSGI's master was fully reloaded between two snapshots."""
    return before.generation != now.generation or is_reload(before.workers, now.workers)


def is_reload(before: tuple[Worker, ...], now: tuple[Worker, ...]) -> bool:
    """Whether uWSGI's master was fully reloaded between two readings, which resets its counters. A reload shows in a
    worker that was spawned without growth of its respawns, or in the number of slots, which a master never changes."""
    if not before or now is before or (now and now[0].requests is None):
        return False
    return len(before) != len(now) or any(_has_restarted(then, later) for then, later in zip(before, now, strict=True))


def _has_restarted(then: Worker, now: Worker) -> bool:
    if then.requests is not None and now.requests is not None and now.requests < then.requests - LARGEST_RACE:
        return True
    if then.respawns is None or now.respawns is None:
        return False
    # Spawn times are whole seconds, so only the PID shows a second spawn within one second.
    spawned = now.last_spawn != then.last_spawn or (then.pid and now.pid and now.pid != then.pid)
    return now.respawns < then.respawns or (now.respawns == then.respawns and bool(spawned))
