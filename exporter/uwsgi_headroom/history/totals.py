"""The totals of a server and its workers, which never decrease."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from msgspec import Struct, field
from msgspec.structs import replace

from uwsgi_headroom.history.counts import OCCUPANCY_BOUNDS, CpuCounts, ServerCounts, WorkerCounts
from uwsgi_headroom.history.response_times.totals import ResponseTimeTotals
from uwsgi_headroom.record import STATES

INSTANT = 0.0005
"""Mean seconds up to which requests end at once. On uWSGI 2.0.31, 2,000 requests without a plugin took 65 us each, and
those of an empty WSGI application 88 us: time alone does not separate them. The bytes do: 0 and 27 for each."""


class WorkerTotals(WorkerCounts):
    """Totals of one worker slot since the exporter's first sample of it. resident_bytes, process_threads: not totals
    but the latest levels, resident_bytes of the process before while this one loads its application; residency: CPU
    seconds by CPU; children_cpu_seconds: of processes that the worker started and waited for; peak_kilobytes,
    ended_kilobytes: the most that the present process had, and the one before. The monotonic times since which figures
    have always been known are None while unknown."""

    running_time_since: float | None = None
    cpu_since: float | None = None
    exceptions: int = 0
    harakiris: int = 0
    write_errors: int = 0
    read_errors: int = 0
    interpreter_lock_seconds: float = 0.0
    lock_seconds: float = 0.0
    lock_waited_seconds: float = 0.0
    lock_held_seconds: float = 0.0
    residency: dict[int, float] = field(default_factory=dict)
    children_cpu_seconds: float = 0.0
    write_errors_since: float | None = None
    lock_held_since: float | None = None
    read_errors_since: float | None = None
    peak_kilobytes: int | None = None
    ended_kilobytes: int = 0


class WaitTotals(Struct):
    """What the request threads of a server have waited for (`WaitWindow`). seconds: by `STATES`, in their order; since:
    the monotonic time since which it has always been known, None while unknown."""

    seconds: list[float] = field(default_factory=lambda: [0.0] * len(STATES))
    backends: dict[str, float] = field(default_factory=dict)
    observed_seconds: float = 0.0
    disagreement_seconds: float = 0.0
    since: float | None = None


class CpuTotals(CpuCounts):
    """since, others_since: the monotonic time since which the figures, and others_seconds, are known; None: unknown."""

    others_seconds: float = 0.0
    since: float | None = None
    others_since: float | None = None


class RouteTotals(Struct):
    """Busy thread seconds of the routes of a server since the first sample, by the number of the route (`RouteBook`).
    names, generations: as in the last sample; bases: what `seconds` was when the route got its number;
    observed_seconds: the time in which the routes are known."""

    seconds: list[float] = field(default_factory=list)
    names: tuple[str, ...] = ()
    generations: tuple[int, ...] = ()
    bases: list[float] = field(default_factory=list)
    observed_seconds: float = 0.0

    def by_route(self) -> dict[str, float]:
        """Busy thread seconds of each route since it got its name."""
        return {name: self.seconds[number] - self.bases[number] for number, name in enumerate(self.names) if name}


class Totals(ServerCounts):
    """Totals of one server since the exporter's first attempt to read it. Workers and sockets are those that uWSGI
    lists now. configured, available, spooled, oldest_waits: not totals but the latest levels.

    is_counted: whether the last sample had uWSGI's own counters. occupancy: counts of samples by `OCCUPANCY_BOUNDS`,
    and at the end those above the last bound. By socket, queue_seconds and queue_full_seconds, as in `Window`;
    queue_since: the monotonic time since which the queue has always been measured; oldest_waits: for how many seconds
    the oldest request in it has waited, 0 if it is empty, as far as that is known. cpu, waits: None until the kernel
    first reports them; response_times: None while uWSGI does not list its threads; routes: None while they are off.
    """

    is_counted: bool = True
    samples: int = 0
    occupancy: list[int] = field(default_factory=lambda: [0] * (len(OCCUPANCY_BOUNDS) + 1))
    occupancy_sum: float = 0.0
    workers: list[WorkerTotals] = field(default_factory=list)
    queue_seconds: dict[str, float] = field(default_factory=dict)
    queue_full_seconds: dict[str, float] = field(default_factory=dict)
    queue_since: dict[str, float] = field(default_factory=dict)
    oldest_waits: Mapping[str, float] = field(default_factory=dict)
    cpu: CpuTotals | None = None
    waits: WaitTotals | None = None
    response_times: ResponseTimeTotals | None = None
    routes: RouteTotals | None = None


def copy_totals(totals: Totals) -> Totals:
    waits, routes = totals.waits, totals.routes
    return replace(
        totals,
        workers=[copy(worker) for worker in totals.workers],
        occupancy=list(totals.occupancy),
        queue_seconds=dict(totals.queue_seconds),
        queue_full_seconds=dict(totals.queue_full_seconds),
        queue_since=dict(totals.queue_since),
        cpu=totals.cpu and replace(totals.cpu),
        waits=waits and replace(waits, seconds=list(waits.seconds), backends=dict(waits.backends)),
        response_times=totals.response_times and replace(totals.response_times),
        routes=routes and replace(routes, seconds=list(routes.seconds), bases=list(routes.bases)),
    )
