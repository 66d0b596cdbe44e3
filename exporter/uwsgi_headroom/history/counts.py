"""What is counted of a server and of its workers: one field for each quantity, with its row of the table.

`totals` has these fields as totals that never decrease, which `integrals` updates, and `window` as their growth between
two instants. From the rows follow those of a history (`rows`), windows, and how windows are merged and written to a
file (`store`). By this table a row takes 84 bytes a worker and 368 for the server, without sockets and backends.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

Number = TypeVar("Number", int, float)

OCCUPANCY_BOUNDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.0)
"""Upper bounds of the histogram of busy / available threads; 0.99 separates "all" from "nearly all"."""


Kind = Literal["count", "time", "level", "change"]

Of = Literal["server", "all workers", "occupancy", "socket", "cpu", "waits", "state", "backend", "worker"]


class Quantity(Struct, frozen=True):
    """A figure of a window: a field of the counts below, which totals and windows have alike. Its type says it:
    `Annotated[int, Quantity("count")]`."""

    kind: Kind
    """A window has the growth of a `count` and of a `time` (in seconds), and the value of a `level` at its end. A
    `change` is the difference of the level before it, which only a window has. Windows merge to the sum, or the last
    level."""
    per_unit: float = 1
    """The whole numbers in which a row keeps a unit of it, modulo 2**32, or DOUBLE."""
    known: str = ""
    """Empty if it always is; "reported" if it is while its total is not None; "waits" if it is while those of the
    server are; else the attribute of the totals since when it is. Levels are known while they are not None, and changes
    if the level was known at both ends."""
    counter: bool = False
    """Whether it is uWSGI's own counter, a field of the same name in `Worker`. Only a full reload resets it."""
    of: Of = "server"
    """What has a value of it; "server" stands for what its class counts. "all workers" is the sum over the workers'
    totals; "occupancy" has one for each of `OCCUPANCY_BOUNDS`, "state" one for each of `STATES`, and "socket" and
    "backend" one for each name."""
    name: str = ""
    metric: str = ""
    says: str = ""
    """The metric with its total, as in `metrics.family.Rows`, empty without one; and what it says."""

    def shown(self, metric: str, says: str) -> "Quantity":
        return replace(self, metric=metric, says=says)

    @property
    def may_be_unknown(self) -> bool:
        """Whether a window may have None."""
        return bool(self.known) or self.kind in ("level", "change")


DOUBLE = 0
_TICKS = 10_000  # per second: enough for a process that uses 119 CPUs for an hour
WAIT_TICKS = 100  # per second: enough for an hour of 11,900 threads
_PER_BYTE = 1 / 1024  # resident memory up to 4 TiB

_COUNT, _REPORTED = Quantity("count"), Quantity("count", known="reported")
_LEVEL, _CHANGE = Quantity("level"), Quantity("change")
_SECONDS, _REPORTED_SECONDS = Quantity("time", DOUBLE), Quantity("time", DOUBLE, known="reported")
_USED, _WAITED = Quantity("time", _TICKS), Quantity("time", WAIT_TICKS, known="waits")
_COUNTER = Quantity("count", counter=True)


class WorkerCounts(Struct):
    """One worker: counts, and times in seconds. A total is None if uWSGI or the kernel never reported it, and a figure
    of a window unless it is known for the whole window. Totals have no changes."""

    worker_id: int = 0
    requests: Annotated[int, _COUNTER] = 0
    static_requests: Annotated[int, _COUNTER] = 0
    respawns: Annotated[int, _COUNTER] = 0
    lost: Annotated[int, _COUNT] = 0
    """Requests in service at the end of the worker's process that it did not complete; a lower bound."""
    up_seconds: Annotated[float, _USED] = 0.0
    """Time in which the worker accepted requests."""
    running_time: Annotated[float | None, Quantity("time", DOUBLE, "running_time_since", counter=True)] = None
    busy_seconds: Annotated[
        float | None,
        _REPORTED_SECONDS.shown(
            "uwsgi_worker_busy_thread_seconds_total",
            "Integral of the worker's busy threads over time, from samples. Its rate is observed concurrency.",
        ),
    ] = None
    cpu_seconds: Annotated[float | None, Quantity("time", _TICKS, "cpu_since")] = None
    interpreter_lock_seconds: Annotated[float | None, _WAITED] = None
    """Summed over the threads, the time in which they waited for the interpreter lock."""
    resident_bytes: Annotated[int | None, Quantity("level", _PER_BYTE)] = None
    resident_growth: Annotated[int | None, Quantity("change", _PER_BYTE)] = None
    """Negative if the memory shrank."""
    write_errors: Annotated[int | None, Quantity("count", known="write_errors_since", counter=True)] = None
    """Responses that could not be written to the client to the end."""
    lock_seconds: Annotated[float | None, _WAITED] = None
    """Time in which a lock of the application is known: the one that is used most."""
    lock_waited_seconds: Annotated[float | None, _WAITED] = None
    """The part of it in which a thread waited for the lock."""
    lock_held_seconds: Annotated[float | None, Quantity("time", WAIT_TICKS, "lock_held_since")] = None
    """The part of it in which the lock was held; known if that was read throughout."""
    read_errors: Annotated[int | None, Quantity("count", known="read_errors_since", counter=True)] = None
    """Failed reads of a request's body, because its client had left or did not send it."""
    grown_kilobytes: Annotated[int | None, _REPORTED] = None
    """How far the memory of each process of the worker rose above what it had after its first request, summed over the
    processes; None unless uWSGI reports memory (`memory-report`, `reload-on-rss`)."""
    loop_held_seconds: Annotated[
        float | None,
        Quantity("time", WAIT_TICKS, "reported").shown(
            "uwsgi_worker_loop_held_seconds_total",
            "Time in which one call held the event loop of a worker with coroutines (gevent and the like), from "
            "samples: the call blocked, or computed for a second or more, and no other request of the worker made "
            "progress. Absent for workers without coroutines, and where uwsgi_wait_thread_seconds_total is absent.",
        ),
    ] = None
    process_threads: Annotated[int | None, _LEVEL] = None
    """All threads of the process, also those that serve no request."""
    threads_growth: Annotated[int | None, _CHANGE] = None
    system_seconds: Annotated[float | None, Quantity("time", _TICKS, "reported")] = None
    """The part of `cpu_seconds` in which the kernel worked for it."""


class CpuCounts(Struct):
    """CPU seconds that a server could use (`kernel.cpus`), over measured_seconds; the parts add up to them."""

    measured_seconds: Annotated[float, _SECONDS] = 0.0
    """The length of a window to within a second, since the machine is read once a second."""
    own_seconds: Annotated[
        float,
        _SECONDS.shown(
            "uwsgi_cpu_used_by_workers_seconds_total",
            "CPU time of all workers and of the child processes they waited for.",
        ),
    ] = 0.0
    idle_seconds: Annotated[
        float,
        _SECONDS.shown(
            "uwsgi_cpu_available_idle_seconds_total",
            "Idle CPU time that the server could have used: on the CPUs its workers may run on, within its cgroup's "
            "quota.",
        ),
    ] = 0.0
    others_seconds: Annotated[
        float | None,
        Quantity("time", DOUBLE, "others_since").shown(
            "uwsgi_cpu_used_by_others_seconds_total",
            "CPU time that other programs used and the server could have used: on its CPUs, or within its cgroup's "
            "quota if that is tighter.",
        ),
    ] = None


class ServerCounts(Struct):
    """A server, without its workers."""

    observed_seconds: Annotated[float, _SECONDS] = 0.0
    """Time with samples; together with gap_seconds it is the whole time."""
    full_seconds: Annotated[float, _SECONDS] = 0.0
    """Time in which every available thread was busy."""
    gap_seconds: Annotated[float, _SECONDS] = 0.0
    reloads: Annotated[
        int,
        _COUNT.shown("uwsgi_server_reloads_total", "Full reloads seen; each one resets uWSGI's own counters to zero."),
    ] = 0
    overflows: Annotated[int | None, _REPORTED] = None
    """Connections that found a TCP queue of the network namespace full, of any program; None if unknown."""
    configured: Annotated[int | None, _LEVEL] = None
    """Threads; None if uWSGI omits them."""
    available: Annotated[int | None, _LEVEL] = None
    refused: Annotated[int | None, _REPORTED] = None
    """Those of `overflows` that are this server's: a TCP queue of its own was full, or there is no other listener."""
    connections: Annotated[
        int | None,
        _REPORTED.shown(
            "uwsgi_tcp_connections_total",
            "TCP connections that clients made to a server whose stats cannot be read. Absent unless its socket is "
            "the only one in its network namespace at which a program listens for TCP.",
        ),
    ] = None
    connections_seconds: Annotated[float | None, Quantity("time", _TICKS, "reported")] = None
    """The time in which they were made."""
    judged: Annotated[int | None, _REPORTED] = None
    """Requests that count for the server's objective (`response_times.misses`); None without one. It and the next four
    grow together, at the end of a batch of response times."""
    missed_slow: Annotated[int | None, _REPORTED] = None
    """Those that missed it, each once: slower in service than the threshold."""
    missed_waited: Annotated[int | None, _REPORTED] = None
    """Quick enough in service, but not together with the wait in the listen queue."""
    missed_lost: Annotated[int | None, _REPORTED] = None
    missed_refused: Annotated[int | None, _REPORTED] = None
    file_lock_seconds: Annotated[float | None, _REPORTED_SECONDS] = None
    """Time in which the lock of a file is known for which the workers wait; None until one is."""
    file_lock_held_seconds: Annotated[float | None, _REPORTED_SECONDS] = None
    """The part of it in which the lock was held."""
    quota_periods: Annotated[
        int | None,
        _REPORTED.shown(
            "uwsgi_cpu_quota_periods_total",
            "Periods of the CPU quota (0.1 s by default) in which a process of the server's cgroup was runnable. Of "
            "several cgroups with a quota, the one that stops the workers most. Absent without a quota.",
        ),
    ] = None
    throttled_periods: Annotated[
        int | None,
        _REPORTED.shown(
            "uwsgi_cpu_quota_throttled_periods_total",
            "Those of uwsgi_cpu_quota_periods_total in which the quota was used up, so that the kernel stopped the "
            "workers until the next period.",
        ),
    ] = None
    throttled_seconds: Annotated[
        float | None,
        _REPORTED_SECONDS.shown(
            "uwsgi_cpu_quota_throttled_seconds_total",
            "For how long the kernel stopped the workers because the quota was used up, summed over the CPUs.",
        ),
    ] = None
    shared_connection_seconds: Annotated[
        float | None,
        _REPORTED_SECONDS.shown(
            "uwsgi_shared_connection_wait_thread_seconds_total",
            "Integral of the threads that wait for an answer over a shared connection. Absent where "
            "uwsgi_wait_thread_seconds_total is absent.",
        ),
    ] = None
    output_blocked_seconds: Annotated[
        float | None,
        _REPORTED_SECONDS.shown(
            "uwsgi_output_blocked_thread_seconds_total",
            "Integral of the threads that wait for a pipe to take their standard output or error, or for a UNIX "
            "datagram socket, as of a log, to take a message. Absent where uwsgi_wait_thread_seconds_total is absent.",
        ),
    ] = None
    oom_kills: Annotated[
        int | None,
        _REPORTED.shown(
            "uwsgi_oom_kills_total",
            "Processes that the kernel killed because memory ran out, since the exporter's start: those of the "
            "server's cgroup, or of the whole host if the kernel does not count them by cgroup.",
        ),
    ] = None
    idle_queue_seconds: Annotated[
        float | None,
        _REPORTED_SECONDS.shown(
            "uwsgi_idle_queue_seconds_total",
            "Time in which a request waited in a listen queue although a thread was free, from samples: something "
            "keeps the workers from accepting it. Absent if no queue is measured or threads are unknown.",
        ),
    ] = None
    no_worker_seconds: Annotated[
        float | None,
        _REPORTED_SECONDS.shown(
            "uwsgi_no_worker_seconds_total",
            "Time in which uWSGI's master answered and no worker took requests, from samples: all were replaced, "
            "paused or starting at once.",
        ),
    ] = None
    cache_full: Annotated[int | None, _REPORTED] = None
    """Items that uWSGI's caches refused because they were full; None without caches."""
    spooler_tasks: Annotated[int | None, _REPORTED] = None
    """Tasks that the spoolers processed; None without spoolers."""
    spooled: Annotated[int | None, _LEVEL] = None
    """Tasks in the directories of all spoolers; None if they cannot be read."""
    spooled_growth: Annotated[int | None, _CHANGE] = None
    unanswered: Annotated[
        int | None,
        _REPORTED.shown(
            "uwsgi_unanswered_requests_total",
            "Requests that ended at once, without a byte of an answer and without an error; a lower bound. uWSGI has "
            "no plugin for them. Absent with stats-no-cores.",
        ),
    ] = None
    starting_seconds: Annotated[
        float | None,
        _REPORTED_SECONDS.shown(
            "uwsgi_starting_worker_seconds_total",
            "Integral of the workers that have a process and accept no request yet, from samples: they load the "
            "application.",
        ),
    ] = None
    untracked: Annotated[
        int | None,
        _REPORTED.shown(
            "uwsgi_untracked_packets_total",
            "Packets that the kernel dropped because it could not track their connection, in the exporter's network "
            "namespace, since the exporter first saw the server: because the table was full, and for rarer reasons.",
        ),
    ] = None
    brimming_seconds: Annotated[float | None, _REPORTED_SECONDS] = None
    """Time in which a queue held a connection more than its limit, Linux's most; None until a queue is measured."""
    handler_seconds: Annotated[float | None, _REPORTED_SECONDS] = None
    """Summed over the workers, the time in which one of their threads ran a handler of a uWSGI signal, such as a timer
    or a cron job: it serves no request meanwhile."""
    queue_left: Annotated[int | None, _REPORTED] = None
    """Without uWSGI's stats: the requests that were seen in a listen queue, and left it."""
    queue_left_timed: Annotated[int | None, _REPORTED] = None
    """Those of them of which is known since when they waited."""
    queue_left_seconds: Annotated[float | None, _REPORTED_SECONDS] = None
    """How long these waited, added up."""
    queue_lists: Annotated[int | None, _REPORTED] = None
    """Without uWSGI's stats: samples that listed every request in the queues."""
    spooler_respawns: Annotated[int | None, _REPORTED] = None
    """Processes of spoolers that uWSGI started; None without spoolers."""
    unanswered_calls: Annotated[int | None, _REPORTED] = None
    """Requests whose application was called and sent no byte; a lower bound."""
    routed: Annotated[int | None, _REPORTED] = None
    """Requests that a rule of uWSGI's internal routing ended."""


def rows_of(counts: type[Struct], of: Of) -> tuple[Quantity, ...]:
    """The rows of a class's own fields, with their names. of: what has a value of them, unless the row says it."""
    kinds = counts.__annotations__  # types, as their modules do not import `annotations` from the future
    rows = [(name, row) for name, kind in kinds.items() for row in getattr(kind, "__metadata__", ())]
    return tuple([replace(row, name=name, of=of if row.of == "server" else row.of) for name, row in rows])


def sum_if_all_known(values: Sequence[Number | None]) -> Number | None:
    """The sum; None if there are no values or one of them is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
