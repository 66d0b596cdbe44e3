"""The growth of a server's totals between two instants of its history, and the table of what it has."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from msgspec import Struct

from uwsgi_headroom.code_look import Line
from uwsgi_headroom.history.counts import (
    DOUBLE,
    WAIT_TICKS,
    CpuCounts,
    Quantity,
    ServerCounts,
    WorkerCounts,
    rows_of,
    sum_if_all_known,
)
from uwsgi_headroom.record import State

_OF_WORKERS = Quantity("count", counter=True, of="all workers")
_OF_SOCKETS = Quantity("time", DOUBLE, "queue_since", of="socket")
_WAITED = Quantity("time", WAIT_TICKS)


class WorkerWindow(WorkerCounts, frozen=True, gc=False):  # type: ignore[misc]  # a Struct may
    """One worker in a window."""


class WaitWindow(Struct, frozen=True):
    """What the request threads waited for, in seconds summed over the threads."""

    observed_seconds: Annotated[
        float,
        _WAITED.shown(
            "uwsgi_wait_observed_seconds_total",
            "Time for which the exporter knows what threads do. With gaps, divide thread seconds by this time.",
        ),
    ]
    disagreement_seconds: Annotated[
        float,
        _WAITED.shown(
            "uwsgi_wait_disagreement_thread_seconds_total",
            "Integral of the difference between the threads in service as the kernel shows them and as uWSGI counts "
            "them.",
        ),
    ]
    seconds: Annotated[Mapping[State, float], Quantity("time", WAIT_TICKS, of="state")]
    """By state, without those that are 0."""
    backends: Annotated[
        Mapping[str, float],
        Quantity("time", WAIT_TICKS, of="backend").shown(
            "uwsgi_backend_wait_thread_seconds_total{backend}",
            "Time in which threads waited for a backend that is named in the exporter's configuration. This time is "
            "part of the state `backend`.",
        ),
    ]


class CpuWindow(CpuCounts, frozen=True):  # type: ignore[misc]  # a Struct may
    """The CPUs in a window."""


class Window(ServerCounts, frozen=True, kw_only=True):  # type: ignore[misc]  # a Struct may
    """The growth of a server's totals between two instants. cpu, waits: None unless known for the whole window."""

    asked: float
    """The requested length in seconds."""
    seconds: float
    """The actual length, which is less if the history is younger or an outage is at the start of the window."""
    until: float
    """The monotonic time of the window's end."""
    workers: tuple[WorkerWindow, ...]
    exceptions: Annotated[int, _OF_WORKERS]
    harakiris: Annotated[int, _OF_WORKERS]
    respawns: Annotated[int, _OF_WORKERS]
    occupancy: Annotated[tuple[int, ...], Quantity("count", of="occupancy")]
    """Counts of samples by `OCCUPANCY_BOUNDS`."""
    queue_seconds: Annotated[
        dict[str, float],
        _OF_SOCKETS.shown(
            "uwsgi_socket_queue_seconds_total{socket}",
            "Integral of the listen queue's length over time, from samples. Divided by requests, it is their mean "
            "wait.",
        ),
    ]
    queue_full_seconds: Annotated[
        dict[str, float],
        _OF_SOCKETS.shown(
            "uwsgi_socket_queue_full_seconds_total{socket}",
            "Time with the listen queue at its limit, from samples: the kernel refused or dropped further clients.",
        ),
    ]
    cpu: CpuWindow | None = None
    waits: WaitWindow | None = None
    is_counted: bool = True
    """Whether uWSGI's own counters are known; without its stats, they are 0 here, and absent for people."""

    @property
    def start(self) -> float:
        """The monotonic time of the window's beginning."""
        return self.until - self.seconds

    @property
    def missed(self) -> int | None:
        """Requests that missed the objective, for any reason."""
        return sum_if_all_known([self.missed_slow, self.missed_waited, self.missed_lost, self.missed_refused])


_OWN = rows_of(Window, "server")
_SERVER = rows_of(ServerCounts, "server")
SERVER = (*_SERVER[:4], *[row for row in _OWN if row.of != "socket"], *_SERVER[4:])
SOCKET = tuple([row for row in _OWN if row.of == "socket"])
CPU = rows_of(CpuCounts, "cpu")
WAITS = rows_of(WaitWindow, "waits")
WORKER = rows_of(WorkerCounts, "worker")

QUANTITIES = (SERVER, SOCKET, CPU, WAITS, WORKER)
"""The table: for each part of a window, its figures in the order of a history file: add at the end of a class, and only
what may be unknown, since it is not in the files that exist."""


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
    """A thread that was in one function at the last looks, for so many seconds; the rest is as of the last one."""

    worker_id: int
    line: Line
    state: State
    address: str
    seconds: float


class CodeWindow(Struct, frozen=True):
    """In which lines of code the busy threads were in a window. off: why nothing is known, as a sentence for an
    operator; seconds: the part of the window in which the code was looked at; looks: at the server; threads: looks at
    busy threads; lines: where they were, most looks first; unread: how many of them have no line, because the stack was
    torn, or is none of CPython's; changed: looks that were dropped, because the thread waited for something else after
    its stack was read; cpu_seconds: of all looks; locks: where threads wait for locks, most looks first; lasting: the
    threads that have been in one function for a second or longer at the last look, those for longest first."""

    off: str | None = None
    seconds: float = 0.0
    looks: int = 0
    threads: float = 0.0
    lines: tuple[LineUse, ...] = ()
    unread: float = 0.0
    changed: int = 0
    cpu_seconds: float = 0.0
    locks: tuple[LockedLine, ...] = ()
    lasting: tuple[Lasting, ...] = ()
