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
    but the latest levels. The monotonic times since which figures have always been known are None while unknown."""

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
    """CPU seconds by CPU."""
    children_cpu_seconds: float = 0.0
    """Of processes that the worker started and waited for."""
    write_errors_since: float | None = None
    lock_held_since: float | None = None
    read_errors_since: float | None = None
    peak_kilobytes: int | None = None
    """Not a total but the most that the present process had."""


class WaitTotals(Struct):
    """What the request threads of a server have waited for (`kernel.waits`), in seconds summed over the threads."""

    seconds: list[float] = field(default_factory=lambda: [0.0] * len(STATES))
    """By `STATES`, in their order."""
    backends: dict[str, float] = field(default_factory=dict)
    """By name; those that are configured."""
    observed_seconds: float = 0.0
    """Time in which it is known."""
    disagreement_seconds: float = 0.0
    """The integral of the difference, in threads, between the number of threads that are not idle according to the
    kernel and the number in service according to uWSGI."""
    since: float | None = None
    """The monotonic time since which it has always been known; None while unknown."""


class CpuTotals(CpuCounts):
    """since, others_since: the monotonic time since which the figures, and others_seconds, are known; None: unknown."""

    others_seconds: float = 0.0
    since: float | None = None
    others_since: float | None = None


class RouteTotals(Struct):
    """Busy thread seconds of the routes of a server, by the number of the route (`RouteBook`).

    names, generations: as in the last sample.
    """

    seconds: list[float] = field(default_factory=list)
    """Since the first sample; never reset."""
    names: tuple[str, ...] = ()
    generations: tuple[int, ...] = ()
    bases: list[float] = field(default_factory=list)
    """What `seconds` was when the route got its number."""
    observed_seconds: float = 0.0
    """Time in which the routes are known."""

    def by_route(self) -> dict[str, float]:
        """Busy thread seconds of each route since it got its name."""
        return {name: self.seconds[number] - self.bases[number] for number, name in enumerate(self.names) if name}


class Totals(ServerCounts):
    """Totals of one server since the exporter's first attempt to read it. Workers and sockets are those that uWSGI
    lists now. configured, available, spooled: not totals but the latest levels."""

    is_counted: bool = True
    """Whether the last sample had uWSGI's own counters."""
    samples: int = 0
    occupancy: list[int] = field(default_factory=lambda: [0] * (len(OCCUPANCY_BOUNDS) + 1))
    """Counts of samples by `OCCUPANCY_BOUNDS`, and at the end those above the last bound."""
    occupancy_sum: float = 0.0
    workers: list[WorkerTotals] = field(default_factory=list)
    queue_seconds: dict[str, float] = field(default_factory=dict)
    """The integral of the listen queue's length, by socket."""
    queue_full_seconds: dict[str, float] = field(default_factory=dict)
    """The time at the queue's limit, by socket."""
    queue_since: dict[str, float] = field(default_factory=dict)
    """The monotonic time since which the queue has always been measured, by socket."""
    oldest_waits: Mapping[str, float] = field(default_factory=dict)
    """Not totals but the latest levels: for how many seconds the oldest request in each queue has waited, 0 if it is
    empty; by socket, without those that are not known."""
    cpu: CpuTotals | None = None
    """None until the kernel first reports CPU times."""
    waits: WaitTotals | None = None
    """None until the kernel first says what the threads wait for."""
    response_times: ResponseTimeTotals | None = None
    """None while uWSGI does not list its threads."""
    routes: RouteTotals | None = None
    """None while routes are off."""


def copy_totals(totals: Totals) -> Totals:
    waits, routes = totals.waits, totals.routes
    return replace(
        totals,
        workers=[copy(worker) for worker in totals.workers],
        occupancy=list(totals.occupancy),
        queue_seconds=dict(totals.queue_seconds),
        queue_full_seconds=dict(totals.queue_full_seconds),
        queue_since=dict(totals.queue_since),
        cpu=None if totals.cpu is None else replace(totals.cpu),
        waits=waits and replace(waits, seconds=list(waits.seconds), backends=dict(waits.backends)),
        response_times=totals.response_times.copy() if totals.response_times else None,
        routes=routes and replace(routes, seconds=list(routes.seconds), bases=list(routes.bases)),
    )
