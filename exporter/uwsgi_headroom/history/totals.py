"""The totals of a server and its workers, which never decrease, and the table of those that a window has.

`integrals` updates the totals. From the table follow the rows of a history (`rows`), windows (`window`), and how the
windows are merged and written to a file (`store`). By this table a row takes 84 bytes a worker and 328 for the server,
without sockets and backends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from uwsgi_headroom.record import STATES
from uwsgi_headroom.response_times.totals import ResponseTimeTotals

Number = TypeVar("Number", int, float)

OCCUPANCY_BOUNDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)
"""Upper bounds of the histogram of busy / available threads; 0.99 separates "all" from "nearly all"."""


Kind = Literal["count", "time", "level", "change"]

Of = Literal["server", "all workers", "occupancy", "socket", "cpu", "waits", "state", "backend", "worker"]


class Quantity(NamedTuple):
    """A figure of a window, by the name of its attribute, in the totals and in the window alike."""

    of: Of
    """What has a value of it. "all workers" is the sum over the workers' totals; "occupancy" has one for each of
    `OCCUPANCY_BOUNDS`, "state" one for each of `STATES`, and "socket" and "backend" one for each name."""
    name: str
    kind: Kind
    """A window has the growth of a `count` and of a `time` (in seconds), and the value of a `level` at its end. A
    `change` is the difference of the level before it in the table. Two windows merge to the sum, or to the last
    level."""
    per_unit: float = 1
    """The whole numbers in which a row keeps a unit of it, modulo 2**32, or DOUBLE."""
    known: str = ""
    """Empty if it always is; "reported" if it is while its total is not None; "waits" if it is while those of the
    server are; else the attribute of the totals since when it is. Levels are known while they are not None, and changes
    if the level was known at both ends."""
    counter: bool = False
    """Whether it is uWSGI's own counter, a field of the same name in `Worker`. Only a full reload resets it."""

    @property
    def may_be_unknown(self) -> bool:
        """Whether a window may have None."""
        return bool(self.known) or self.kind in ("level", "change")


DOUBLE = 0
_TICKS = 10_000  # per second: enough for a process that uses 119 CPUs for an hour
_WAIT_TICKS = 100  # per second: enough for an hour of 11,900 threads
_PER_BYTE = 1 / 1024  # resident memory up to 4 TiB

SERVER = (
    Quantity("server", "observed_seconds", "time", DOUBLE),
    Quantity("server", "full_seconds", "time", DOUBLE),
    Quantity("server", "gap_seconds", "time", DOUBLE),
    Quantity("server", "reloads", "count"),
    Quantity("all workers", "exceptions", "count", counter=True),
    Quantity("all workers", "harakiris", "count", counter=True),
    Quantity("all workers", "respawns", "count", counter=True),
    Quantity("occupancy", "occupancy", "count"),
    Quantity("server", "overflows", "count", known="reported"),
    Quantity("server", "configured", "level"),
    Quantity("server", "available", "level"),
    Quantity("server", "refused", "count", known="reported"),
    Quantity("server", "judged", "count", known="reported"),
    Quantity("server", "missed_slow", "count", known="reported"),
    Quantity("server", "missed_waited", "count", known="reported"),
    Quantity("server", "missed_lost", "count", known="reported"),
    Quantity("server", "missed_refused", "count", known="reported"),
    Quantity("server", "file_lock_seconds", "time", DOUBLE, known="reported"),
    Quantity("server", "file_lock_held_seconds", "time", DOUBLE, known="reported"),
    Quantity("server", "quota_periods", "count", known="reported"),
    Quantity("server", "throttled_periods", "count", known="reported"),
    Quantity("server", "throttled_seconds", "time", DOUBLE, known="reported"),
    Quantity("server", "shared_connection_seconds", "time", DOUBLE, known="reported"),
    Quantity("server", "output_blocked_seconds", "time", DOUBLE, known="reported"),
    Quantity("server", "oom_kills", "count", known="reported"),
    Quantity("server", "idle_queue_seconds", "time", DOUBLE, known="reported"),
    Quantity("server", "no_worker_seconds", "time", DOUBLE, known="reported"),
    Quantity("server", "cache_full", "count", known="reported"),
    Quantity("server", "spooler_tasks", "count", known="reported"),
    Quantity("server", "spooled", "level"),
    Quantity("server", "spooled_growth", "change"),
    Quantity("server", "unanswered", "count", known="reported"),
    Quantity("server", "starting_seconds", "time", DOUBLE, known="reported"),
    Quantity("server", "untracked", "count", known="reported"),
    Quantity("server", "brimming_seconds", "time", DOUBLE, known="reported"),
    Quantity("server", "handler_seconds", "time", DOUBLE, known="reported"),
)
SOCKET = (
    Quantity("socket", "queue_seconds", "time", DOUBLE, known="queue_since"),
    Quantity("socket", "queue_full_seconds", "time", DOUBLE, known="queue_since"),
)
CPU = (
    Quantity("cpu", "measured_seconds", "time", DOUBLE),
    Quantity("cpu", "own_seconds", "time", DOUBLE),
    Quantity("cpu", "idle_seconds", "time", DOUBLE),
    Quantity("cpu", "others_seconds", "time", DOUBLE, known="others_since"),
)
WAITS = (
    Quantity("waits", "observed_seconds", "time", _WAIT_TICKS),
    Quantity("waits", "disagreement_seconds", "time", _WAIT_TICKS),
    Quantity("state", "seconds", "time", _WAIT_TICKS),
    Quantity("backend", "backends", "time", _WAIT_TICKS),
)
WORKER = (
    Quantity("worker", "requests", "count", counter=True),
    Quantity("worker", "static_requests", "count", counter=True),
    Quantity("worker", "respawns", "count", counter=True),
    Quantity("worker", "lost", "count"),
    Quantity("worker", "up_seconds", "time", _TICKS),
    Quantity("worker", "running_time", "time", DOUBLE, known="running_time_since", counter=True),
    Quantity("worker", "busy_seconds", "time", DOUBLE, known="reported"),
    Quantity("worker", "cpu_seconds", "time", _TICKS, known="cpu_since"),
    Quantity("worker", "interpreter_lock_seconds", "time", _WAIT_TICKS, known="waits"),
    Quantity("worker", "resident_bytes", "level", _PER_BYTE),
    Quantity("worker", "resident_growth", "change", _PER_BYTE),
    Quantity("worker", "write_errors", "count", known="write_errors_since", counter=True),
    Quantity("worker", "lock_seconds", "time", _WAIT_TICKS, known="waits"),
    Quantity("worker", "lock_waited_seconds", "time", _WAIT_TICKS, known="waits"),
    Quantity("worker", "lock_held_seconds", "time", _WAIT_TICKS, known="lock_held_since"),
    Quantity("worker", "read_errors", "count", known="read_errors_since", counter=True),
    Quantity("worker", "grown_kilobytes", "count", known="reported"),
    Quantity("worker", "loop_held_seconds", "time", _WAIT_TICKS, known="reported"),
    Quantity("worker", "process_threads", "level"),
    Quantity("worker", "threads_growth", "change"),
    Quantity("worker", "system_seconds", "time", _TICKS, known="reported"),
)

QUANTITIES = (SERVER, SOCKET, CPU, WAITS, WORKER)
"""The table: for each part of a window, its figures in the order of the part's attributes. A file has the same order:
add at the end of a part, and only what may be unknown, since it is not in the files that exist."""


INSTANT = 0.0005
"""Mean seconds up to which requests end at once. On uWSGI 2.0.31, 2,000 requests without a plugin took 65 us each, and
those of an empty WSGI application 88 us: time alone does not separate them. The bytes do: 0 and 27 for each."""


class WorkerTotals(Struct):
    """Totals of one worker slot since the exporter's first sample of it: counts, and times in seconds. A total is None
    if uWSGI or the kernel never reported it.

    running_time_since, cpu_since, write_errors_since, read_errors_since: the monotonic time since which the figure has
    always been known; None while unknown.
    """

    requests: int = 0
    static_requests: int = 0
    running_time: float | None = None
    busy_seconds: float | None = None
    """Busy time, summed over the threads."""
    up_seconds: float = 0.0
    """Time in which the worker accepted requests."""
    cpu_seconds: float | None = None
    resident_bytes: int | None = None
    """Not a total but the latest level."""
    running_time_since: float | None = None
    cpu_since: float | None = None
    exceptions: int = 0
    harakiris: int = 0
    respawns: int = 0
    lost: int = 0
    """Requests in service at the end of the worker's process that it did not complete; a lower bound."""
    residency: dict[int, float] = {}
    """CPU seconds by CPU."""
    children_cpu_seconds: float = 0.0
    """Of processes that the worker started and waited for."""
    interpreter_lock_seconds: float = 0.0
    """Summed over the threads, the time in which they waited for the interpreter lock; `WaitTotals.since` says since
    when it is known."""
    write_errors: int = 0
    """Responses that could not be written to the client to the end."""
    write_errors_since: float | None = None
    lock_seconds: float = 0.0
    """Time in which a lock of the application is known: the one that is used most."""
    lock_waited_seconds: float = 0.0
    """The part of it in which a thread waited for the lock."""
    lock_held_seconds: float = 0.0
    """The part of it in which the lock was held."""
    lock_held_since: float | None = None
    """The monotonic time since which it has always been read if locks are held; None while it is not."""
    read_errors: int = 0
    """Failed reads of a request's body."""
    read_errors_since: float | None = None
    grown_kilobytes: int | None = None
    """How far the memory of each process of the worker rose above what it had after its first request, summed over the
    processes; None unless uWSGI reports memory (`memory-report`, `reload-on-rss`)."""
    loop_held_seconds: float | None = None
    """Time in which a call held the event loop of a worker with coroutines (`kernel.waits.loops`); None until that is
    known."""
    process_threads: int | None = None
    """Not a total but the latest level: all threads of the process, also those that serve no request."""
    peak_kilobytes: int | None = None
    """Not a total but the most that the present process had."""
    system_seconds: float | None = None
    """The part of `cpu_seconds` in which the kernel worked for it."""


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


class CpuTotals(Struct):
    """CPU seconds that a server could use (`kernel.server_cpu`), over measured_seconds. The three parts add up to the
    capacity.

    since, others_since: the monotonic time since which the figures, and others_seconds, have always been known; None
    while unknown.
    """

    measured_seconds: float = 0.0
    own_seconds: float = 0.0
    """Of the server's workers and the processes they waited for."""
    idle_seconds: float = 0.0
    """Not used by any process."""
    others_seconds: float = 0.0
    """Used by other processes."""
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


class Totals(Struct):
    """Totals of one server since the exporter's first attempt to read it. Workers and sockets are those that uWSGI
    lists now.

    observed_seconds, gap_seconds: time with and without samples; together they are the whole time. configured,
    available: not totals but the latest levels: threads, None if uWSGI omits them.
    """

    samples: int = 0
    observed_seconds: float = 0.0
    gap_seconds: float = 0.0
    full_seconds: float = 0.0
    """Time in which every available thread was busy."""
    reloads: int = 0
    occupancy: list[int] = field(default_factory=lambda: [0] * (len(OCCUPANCY_BOUNDS) + 1))
    """Counts of samples by `OCCUPANCY_BOUNDS`, and at the end those above the last bound."""
    occupancy_sum: float = 0.0
    configured: int | None = None
    available: int | None = None
    workers: list[WorkerTotals] = field(default_factory=list)
    overflows: int | None = None
    """Connections that found a TCP queue of the network namespace full; None if unknown."""
    refused: int | None = None
    """Those among them that are this server's: a TCP queue of its own was full then, or the namespace has no other TCP
    listener."""
    judged: int | None = None
    """Requests that count for the server's objective (`response_times.misses`); None without one. It and the next four
    grow together, at the end of a batch of response times."""
    missed_slow: int | None = None
    """Those that missed it, each once: slower in service than the threshold."""
    missed_waited: int | None = None
    """Quick enough in service, but not together with the wait in the listen queue."""
    missed_lost: int | None = None
    missed_refused: int | None = None
    queue_seconds: dict[str, float] = field(default_factory=dict)
    """The integral of the listen queue's length, by socket."""
    queue_full_seconds: dict[str, float] = field(default_factory=dict)
    """The time at the queue's limit, by socket."""
    queue_since: dict[str, float] = field(default_factory=dict)
    """The monotonic time since which the queue has always been measured, by socket."""
    oldest_waits: Mapping[str, float] = field(default_factory=dict)
    """Not totals but the latest levels: for how many seconds the oldest request in each queue has waited, 0 if it is
    empty; by socket, without those that are not known."""
    file_lock_seconds: float | None = None
    """Time in which the lock of a file is known for which the workers wait; None until one is."""
    file_lock_held_seconds: float | None = None
    """The part of it in which the lock was held."""
    quota_periods: int | None = None
    """Periods of the CPU quota in which a process of the cgroup could run; None until a quota is known."""
    throttled_periods: int | None = None
    """Those in which the quota was used up, and the kernel stopped the processes."""
    throttled_seconds: float | None = None
    """For how long it did, summed over the CPUs."""
    shared_connection_seconds: float | None = None
    """Summed over the threads, the time in which they waited for an answer over a connection that workers share; None
    until waits are known."""
    output_blocked_seconds: float | None = None
    """Summed over the threads, the time in which they waited for a pipe to take their standard output or error; None
    until waits are known."""
    oom_kills: int | None = None
    """Processes of the server's cgroup, or of the host if that is not counted, that the kernel has killed because
    memory ran out; None if it counts none of them."""
    idle_queue_seconds: float | None = None
    """Time in which a request waited in a queue and a thread that serves it was free; None until one is measured."""
    brimming_seconds: float | None = None
    """Time in which a queue held one connection more than its limit, the most that Linux lets in; None until a queue is
    measured."""
    no_worker_seconds: float | None = None
    """Time in which uWSGI's master answered and no worker took requests."""
    starting_seconds: float | None = None
    """Summed over the workers, the time in which they had a process and did not accept requests yet."""
    handler_seconds: float | None = None
    """Summed over the workers, the time in which one of their threads ran a handler of a uWSGI signal, such as a timer
    or a cron job: it serves no request meanwhile."""
    cache_full: int | None = None
    """Items that uWSGI's caches refused because they were full; None without caches."""
    spooler_tasks: int | None = None
    """Tasks that the spoolers processed; None without spoolers."""
    spooled: int | None = None
    """Not a total but the latest level: tasks in the directories of all spoolers."""
    unanswered: int | None = None
    """Requests that ended at once, without a byte of an answer and without an error, at least; None with
    stats-no-cores."""
    untracked: int | None = None
    """Packets that the kernel dropped because it could not track their connection, in the network namespace; None if it
    tracks none, or if that is not known."""
    cpu: CpuTotals | None = None
    """None until the kernel first reports CPU times."""
    waits: WaitTotals | None = None
    """None until the kernel first says what the threads wait for."""
    response_times: ResponseTimeTotals | None = None
    """None while uWSGI does not list its threads."""
    routes: RouteTotals | None = None
    """None while routes are off."""


def sum_if_all_known(values: Sequence[Number | None]) -> Number | None:
    """The sum; None if there are no values or one of them is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def copy_totals(totals: Totals) -> Totals:
    """A copy of the totals, which later samples do not change."""
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
