"""The growth of a server's totals between two instants of its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct

from uwsgi_headroom.history.rows import Column, Growth, Row, compare_rows
from uwsgi_headroom.history.totals import (
    CPU,
    SERVER,
    SOCKET,
    WORKER,
    CpuTotals,
    Quantity,
    Totals,
    WaitTotals,
    sum_if_all_known,
)
from uwsgi_headroom.record import STATES, Line, State


class WorkerWindow(Struct, frozen=True, gc=False):
    """One worker in a window: counts, and times in seconds. A figure is None unless known for the whole window. After
    `worker_id`, the order is that of the table (`totals.WORKER`)."""

    worker_id: int
    requests: int
    static_requests: int
    respawns: int
    lost: int
    """Requests in service at the end of the worker's process that it did not complete; a lower bound."""
    up_seconds: float
    running_time: float | None
    busy_seconds: float | None
    cpu_seconds: float | None
    interpreter_lock_seconds: float | None
    """Summed over the threads, the time in which they waited for the interpreter lock."""
    resident_bytes: int | None
    """At the end of the window."""
    resident_growth: int | None
    """Since the start of the window; negative if the memory shrank."""
    write_errors: int | None = None
    """Responses that could not be written to the client to the end."""
    lock_seconds: float | None = None
    """Time in which a lock of the application was known, the one that is used most."""
    lock_waited_seconds: float | None = None
    """The part of it in which a thread waited for the lock."""
    lock_held_seconds: float | None = None
    """The part of it in which the lock was held; None unless that was read throughout."""
    read_errors: int | None = None
    """Failed reads of a request's body, because its client had left or did not send it."""
    grown_kilobytes: int | None = None
    """How far the memory of each process of the worker rose, summed over the processes; see `WorkerTotals`."""
    loop_held_seconds: float | None = None
    """Time in which a call held the event loop; None unless the worker has one, and it is seen."""
    process_threads: int | None = None
    """All threads of its process at the end of the window, also those that serve no request."""
    threads_growth: int | None = None
    """Since the start of the window; negative if there are fewer."""
    system_seconds: float | None = None
    """The part of `cpu_seconds` in which the kernel worked for it."""


class WaitWindow(Struct, frozen=True):
    """What the request threads waited for, in seconds summed over the threads."""

    observed_seconds: float
    """The time that was sampled."""
    disagreement_seconds: float
    """See `WaitTotals`."""
    seconds: Mapping[State, float]
    """By state, without those that are 0."""
    backends: Mapping[str, float]
    """By name, of those that are configured."""


class CpuWindow(Struct, frozen=True):
    """CPU seconds that the server could use: own, idle, and of others (None unless known for the whole window)."""

    measured_seconds: float
    """The length of the window to within a second, since the machine is read once a second."""
    own_seconds: float
    idle_seconds: float
    others_seconds: float | None


class Window(Struct, frozen=True):
    """The growth of a server's totals between two instants of its history.

    observed_seconds, gap_seconds: time with and without samples. configured, available: threads at the end of the
    window; None if unknown. cpu, waits: None unless known for the whole window.
    """

    asked: float
    """The requested length in seconds."""
    seconds: float
    """The actual length, which is less if the history is younger or an outage is at the start of the window."""
    until: float
    """The monotonic time of the window's end."""
    observed_seconds: float
    full_seconds: float
    """Time in which every available thread was busy."""
    gap_seconds: float
    reloads: int
    exceptions: int
    harakiris: int
    respawns: int
    overflows: int | None
    """How often a connection found a TCP queue of the network namespace full, of any program; None if unknown."""
    workers: tuple[WorkerWindow, ...]
    queue_seconds: dict[str, float]
    """The integral of the listen queue's length, by socket; only sockets measured for the whole window."""
    queue_full_seconds: dict[str, float]
    """For the same sockets, the time at the queue's limit."""
    occupancy: tuple[int, ...]
    """Counts of samples by `OCCUPANCY_BOUNDS`."""
    configured: int | None
    available: int | None
    cpu: CpuWindow | None = None
    waits: WaitWindow | None = None
    refused: int | None = None
    """Those of `overflows` that are this server's; None if unknown."""
    judged: int | None = None
    """Requests that count for the objective; None without one. The next four are those that missed it, each once."""
    missed_slow: int | None = None
    missed_waited: int | None = None
    missed_lost: int | None = None
    missed_refused: int | None = None

    @property
    def missed(self) -> int | None:
        """Requests that missed the objective, for any reason."""
        return sum_if_all_known([self.missed_slow, self.missed_waited, self.missed_lost, self.missed_refused])

    file_lock_seconds: float | None = None
    """Time in which the lock of a file was known for which the workers wait; None if none ever was."""
    file_lock_held_seconds: float | None = None
    """The part of it in which the lock was held."""
    quota_periods: int | None = None
    """Periods of the CPU quota in which a process of the cgroup could run; None without a quota."""
    throttled_periods: int | None = None
    """Those in which the quota was used up, and the kernel stopped the processes."""
    throttled_seconds: float | None = None
    """For how long it did, summed over the CPUs."""
    shared_connection_seconds: float | None = None
    """Summed over the threads, the time in which they waited for an answer over a connection that workers share; None
    if waits are not known."""
    output_blocked_seconds: float | None = None
    """The same, in which they waited for a pipe to take their standard output or error."""
    oom_kills: int | None = None
    """Processes of the server's cgroup, or of the host if that is not counted, that the kernel killed because
    memory ran out."""
    idle_queue_seconds: float | None = None
    """Time in which a request waited in a queue and a thread that serves it was free; None if no queue is measured."""
    no_worker_seconds: float | None = None
    """Time in which uWSGI's master answered and no worker took requests."""
    cache_full: int | None = None
    """Items that uWSGI's caches refused because they were full; None without caches."""
    spooler_tasks: int | None = None
    """Tasks that the spoolers processed; None without spoolers."""
    spooled: int | None = None
    """Tasks in the spoolers' directories at the end of the window; None if they cannot be read."""
    spooled_growth: int | None = None
    """How many more these are than at the start of the window; negative if fewer."""
    unanswered: int | None = None
    """Requests that ended at once, without a byte of an answer and without an error, at least; None with
    stats-no-cores."""
    starting_seconds: float | None = None
    """Summed over the workers, the time in which they had a process and did not accept requests yet."""
    handler_seconds: float | None = None
    """Summed over the workers, the time in which one of their threads ran a handler of a uWSGI signal."""
    untracked: int | None = None
    """Packets that the kernel dropped because it could not track their connection; None if it tracks none."""
    brimming_seconds: float | None = None
    """Time in which a listen queue held one connection more than its limit; None if no queue is measured."""


class RouteWindow(Struct, frozen=True):
    """Busy thread seconds by route in a window, of which observed_seconds were sampled. Time of routes that have been
    forgotten since counts as `other`."""

    observed_seconds: float
    seconds: Mapping[str, float]


class LineUse(Struct, frozen=True):
    """How the busy threads that were seen in a line of code spend their time. looks: at such threads; states: the same
    by what they wait for; addresses: the same by backend or name server, as far as those are known."""

    line: Line
    looks: float
    states: Mapping[State, float]
    addresses: Mapping[str, float]


class LockedLine(Struct, frozen=True):
    """A line at which threads wait for a lock of the application.

    waited: the line. looks: at workers of which a thread waited there. several: those that saw more than one thread
    further down in the same function. holders: where the thread was in those that saw one, which is the one that has
    the lock if that is the rule."""

    waited: Line
    looks: int
    several: int
    holders: tuple[LineUse, ...]


class Lasting(NamedTuple):
    """A thread that was in one function at each of the last looks, for so many seconds; line, state and address are
    those of the last one."""

    worker_id: int
    line: Line
    state: State
    address: str
    seconds: float


class CodeWindow(Struct, frozen=True):
    """In which lines of code the busy threads were in a window."""

    off: str | None = None
    """Why nothing is known, as a sentence for an operator."""
    seconds: float = 0.0
    """The part of the window in which the code was looked at."""
    looks: int = 0
    """At the server."""
    threads: float = 0.0
    """Looks at busy threads."""
    lines: tuple[LineUse, ...] = ()
    """Where they were, most looks first."""
    unread: float = 0.0
    """How many of them have no line, because the stack was torn, or is none of CPython's."""
    changed: int = 0
    """Looks that were dropped, because the thread waited for something else after its stack was read."""
    cpu_seconds: float = 0.0
    """Of CPU time, for all looks."""
    locks: tuple[LockedLine, ...] = ()
    """Where threads wait for locks, most looks first."""
    lasting: tuple[Lasting, ...] = ()
    """The threads that have been in one function for a second or longer at the last look, those for longest first."""


def window_between(latest: Totals, first: tuple[float, Row], last: tuple[float, Row], asked: float) -> Window:
    """The window between two rows. `latest` has the same workers and sockets, and the start of each known figure."""
    (at, start), (until, end) = first, last
    growth = compare_rows(start, end, latest)
    waits = _wait_window(at, latest.waits, growth)
    workers = _hide_unknown(_OF_WORKER, growth.workers, latest.workers, at, waits)
    figures: dict[str, Any] = {
        quantity.name: tuple(column) if quantity.of == "occupancy" else column[0]
        for quantity, column in zip(SERVER, _hide_unknown(_OF_SERVER, growth.server, (latest,), at), strict=True)
    }
    for quantity, areas in zip(SOCKET, growth.sockets, strict=True):
        figures[quantity.name] = _since_start(latest, areas, growth.queue_since, at)
    return Window(
        asked=asked,
        seconds=until - at,
        until=until,
        workers=tuple(map(WorkerWindow, count(1), *workers)),
        cpu=_cpu_window(at, latest.cpu, growth),
        waits=waits,
        **figures,
    )


class _MaybeUnknown(NamedTuple):
    """A figure that is not always known: its place in its part of the table, and how to see since when it is."""

    place: int
    known: str
    get_total: Callable[[object], object]
    get_since: Callable[[object], float | None]


def _find_maybe_unknown(part: Sequence[Quantity]) -> list[_MaybeUnknown]:
    return [
        _MaybeUnknown(place, quantity.known, attrgetter(quantity.name), attrgetter(quantity.known))
        for place, quantity in enumerate(part)
        if quantity.known
    ]


_OF_SERVER, _OF_CPU, _OF_WORKER = map(_find_maybe_unknown, (SERVER, CPU, WORKER))


def _hide_unknown(
    figures: Sequence[_MaybeUnknown], growth: list[Column], totals: Sequence[object], start: float, waits: object = None
) -> list[Column]:
    """The columns of a part, with None where a figure is not known for a whole window that starts at `start`. totals:
    of each thing that has values."""
    columns = list(growth)
    for place, known_by, get_total, get_since in figures:
        values = columns[place]
        if known_by == "waits":
            columns[place] = values if waits else [None] * len(values)
            continue
        known = [total is not None for total in map(get_total, totals)]
        if known_by != "reported":
            since = map(get_since, totals)
            known = [yes and at is not None and at <= start for yes, at in zip(known, since, strict=True)]
        if not all(known):
            columns[place] = [value if yes else None for value, yes in zip(values, known, strict=True)]
    return columns


def _since_start(latest: Totals, areas: Column, known_since: Column, start: float) -> dict[str, float]:
    """The areas of the queues that were measured from the start of the window to its end, by socket."""
    named = zip(latest.queue_seconds, areas, known_since, strict=True)
    return {name: area for name, area, since in named if since <= start}


def _covers(since: float | None, start: float) -> bool:
    """Whether a figure known since `since` is known for a whole window that starts at `start`."""
    return since is not None and since <= start


def _cpu_window(start: float, totals: CpuTotals | None, growth: Growth) -> CpuWindow | None:
    if totals is None or not _covers(totals.since, start):
        return None
    cpu = CpuWindow(*[column[0] for column in _hide_unknown(_OF_CPU, growth.cpu, (totals,), start)])
    return cpu if cpu.measured_seconds else None


def _wait_window(start: float, totals: WaitTotals | None, growth: Growth) -> WaitWindow | None:
    (observed,), (disagreement,), seconds, backends = growth.waits
    if totals is None or not _covers(totals.since, start) or not observed:
        return None
    return WaitWindow(
        observed_seconds=observed,
        disagreement_seconds=disagreement,
        seconds={state: area for state, area in zip(STATES, seconds, strict=True) if area},
        backends=dict(zip(totals.backends, backends, strict=True)),
    )
