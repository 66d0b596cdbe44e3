"""Derives from consecutive readings what no counter says: who used the CPU that a server could use, how much running
time a worker can have added, and which requests ended without an answer."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import NamedTuple

from uwsgi_headroom.history.totals import INSTANT, CpuTotals, Totals
from uwsgi_headroom.kernel.cpus import CpuTimes
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker

MOST_WAITING = 10.0
"""The most CPU seconds that are carried over to the next step. A child process that used more did so long before its
end, and the excess counts as the use of others."""


class CpuUse:
    """Adds the CPU times of readings to a server's totals, and keeps the state as of the last new CPU times.

    The kernel reports the total use (`kernel.cpus`) and the use of each worker; the rest is the use of others. No
    step attributes more to the workers than was used in the step. An excess is carried over to the next step: either
    the two readings are not simultaneous, or a child process has ended, whose CPU time arrives all at once. So own +
    idle + others = capacity x time.

    If a worker ended while the server could not be read (a failed read, a pause), its last CPU time is unknown and
    would count as the use of others. The use of others is therefore unknown for that time.
    """

    def __init__(self) -> None:
        self._times: CpuTimes | None = None
        self._own = 0.0
        self._waiting = 0.0
        self._pids: list[int | None] = []
        self._looked = True

    def add(self, totals: Totals, reading: Reading, workers: tuple[Worker, ...], *, bridged: bool) -> None:
        """Add a reading, after its workers' own CPU time was added. bridged: no gap since the previous reading."""
        self._looked = self._looked and bridged
        times = reading.host.cpu_times
        if times is None or any(worker.cpu_since is None for worker in totals.workers):
            self._times = None
            if totals.cpu is not None:
                totals.cpu.since = totals.cpu.others_since = None
            return
        if times is self._times:
            return
        # A slot that was never used has used none.
        own = sum([(worker.cpu_seconds or 0.0) + worker.children_cpu_seconds for worker in totals.workers])
        cpu = totals.cpu = totals.cpu or CpuTotals()
        pids = [worker.pid for worker in workers]
        if self._times is None or len(pids) != len(self._pids):
            cpu.since = cpu.others_since = reading.at
        else:
            self._add_step(cpu, self._times, times, own, known=self._looked or pids == self._pids, at=reading.at)
        self._times, self._own, self._pids, self._looked = times, own, pids, True

    def _add_step(self, cpu: CpuTotals, then: CpuTimes, now: CpuTimes, own: float, *, known: bool, at: float) -> None:
        used = now.used_seconds - then.used_seconds
        claimed = self._waiting + own - self._own
        used_by_own = min(claimed, used)
        self._waiting = min(claimed - used_by_own, MOST_WAITING)
        cpu.measured_seconds += now.measured_seconds - then.measured_seconds
        cpu.idle_seconds += now.idle_seconds - then.idle_seconds
        cpu.own_seconds += used_by_own
        if known:
            cpu.others_seconds += used - used_by_own
        else:
            cpu.others_since = at


SLACK = 1.1
"""How much faster uWSGI's clock may run than the exporter's. chrony slews by a twelfth at most."""

_Serving = dict[int, tuple[int | None, float]]
"""For each busy thread: the start of its request according to uWSGI, and a monotonic time before that start."""


class ServiceTime:
    """Records when each busy thread of one server began its request.

    uWSGI adds the whole time of a request at its end, by the host's wall clock: if that clock steps forward by an hour,
    each request in service adds an hour. But a thread serves one request at a time. Between two samples it can add at
    most the time between them, plus the age of the request that it served at the first sample. The exporter's monotonic
    clock measures both; any excess is an error of uWSGI's clock.

    The age of a request that was in service at the exporter's first sample is unknown, so there is no bound until the
    request ends. If uWSGI does not list threads (stats-no-cores), there is no bound either.
    """

    def __init__(self) -> None:
        self._serving: dict[int, _Serving] = {}
        self._earlier: dict[int, _Serving] = {}
        self._sampled_at = -math.inf  # at or before the time when uWSGI wrote the last document

    def note(self, reading: Reading, workers: tuple[Worker, ...]) -> None:
        """Record the requests in service at a sample. Call this after `bound` was called for each worker."""
        self._earlier = self._serving
        self._serving = {worker.worker_id: self._since(worker) for worker in workers if worker.serving}
        self._sampled_at = reading.at - reading.read_seconds

    def bound(self, worker: Worker, at: float) -> float:
        """The most seconds of running time that a worker can have added from the last sample until `at`."""
        if worker.threads is None:
            return math.inf
        # uWSGI writes a worker's running time before the states of its threads. If a request ends between the two, its
        # thread is already idle in this sample, but its time is not added until the next one.
        since: dict[int, float] = {}
        for serving in (self._earlier.get(worker.worker_id, {}), self._serving.get(worker.worker_id, {})):
            for thread, (_, began) in serving.items():
                since[thread] = min(began, since.get(thread, math.inf))
        # Infinite for a request from before the first sample.
        in_hand = sum(self._sampled_at - began for began in since.values())
        return SLACK * (in_hand + worker.threads * (at - self._sampled_at))

    def _since(self, worker: Worker) -> _Serving:
        before = self._serving.get(worker.worker_id, {})
        return {
            thread: before[thread] if thread in before and before[thread][0] == start else (start, self._sampled_at)
            for thread, start in worker.serving.items()
        }


class _Served(NamedTuple):
    """What all workers have done. requests: that should have had an answer; calls: of applications; a respawn may reset
    them."""

    requests: int
    calls: int
    seconds: float
    sent_bytes: int
    routed: int


class Unanswered:
    """Adds the requests of one server that end without an answer, and those that its routing ends.

    uWSGI calls the plugin of a request's modifier. If that plugin is not loaded, it closes the connection, counts the
    request like any other, and its statistics show nothing but what did not happen: no byte was sent (`tx` counts heads
    and bodies of all answers), no time was spent, and no application was called, which uWSGI counts for Python, Perl
    and Ruby. A request whose application fails has a head, or an exception. Not counted are, therefore: requests with
    an exception, a write error or a read error, those that a rule of the internal routing ended, which may want to send
    nothing, static files, and those that ended their worker (`reload-on-exception` counts no exception).

    uWSGI counts the bytes of a request some microseconds after the request. So requests count once another sample shows
    no bytes either. Where other requests are answered all the time, none count: the number is a lower bound.
    """

    def __init__(self) -> None:
        self._workers: tuple[Worker, ...] = ()
        self._served: _Served | None = None
        self._pending = self._pending_calls = 0

    def add(self, totals: Totals, workers: tuple[Worker, ...], *, joined: bool) -> None:
        """Add a sample. joined: whether uWSGI's counters went on since the last one."""
        before = self._served
        if workers is not self._workers:  # an unchanged document has the same
            self._workers, self._served = workers, _sum(workers)
        now = self._served
        if now is None:
            self._pending = self._pending_calls = 0
            return
        totals.unanswered, totals.unanswered_calls = totals.unanswered or 0, totals.unanswered_calls or 0
        totals.routed = (totals.routed or 0) + (max(0, now.routed - before.routed) if before and joined else 0)
        if before is None or not joined or now.sent_bytes != before.sent_bytes:
            self._pending = self._pending_calls = 0
            return
        totals.unanswered += self._pending
        totals.unanswered_calls += self._pending_calls
        calls, ended = max(0, now.calls - before.calls), now.requests - before.requests
        self._pending_calls = max(0, min(calls, ended))
        requests = ended - calls
        seconds = now.seconds - before.seconds
        self._pending = requests if requests > 0 and seconds <= INSTANT * requests else 0


_get_counters = attrgetter(
    *("requests", "running_time", "transmitted_bytes"),
    *("static_requests", "routed_requests", "write_errors", "read_errors"),  # these explain why there was no answer
)


def _sum(workers: tuple[Worker, ...]) -> _Served | None:
    """What the workers have done; None if that is not known of each."""
    requests, calls, seconds, sent, routed = 0, 0, 0.0, 0, 0
    for worker in workers:
        counters = _get_counters(worker)
        if None in counters:
            return None
        served, running_time, sent_bytes, *explained = counters
        requests += served - sum(explained) - (worker.exceptions or 0) - (worker.respawns or 0)
        calls += sum([app.requests or 0 for app in worker.apps])
        seconds += running_time
        sent += sent_bytes
        routed += worker.routed_requests or 0
    return _Served(requests, calls, seconds, sent, routed) if workers else None
