"""A server at one instant, as it is judged: its workers, queues, CPUs, memory and setup. What grows is in a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from uwsgi_headroom.record.backlog import Backlog
from uwsgi_headroom.record.setup import UNKNOWN, Setup
from uwsgi_headroom.record.waits import Waits

WorkerState = Literal["accepting", "paused", "reserve", "down"]
"""accepting: takes requests. paused: takes none until it is resumed. reserve: cheaper mode spawns it when load grows.
down: has no process, or does not accept yet."""


class WorkerRecord(Struct, frozen=True, gc=False):
    """One worker slot.

    threads: None if uWSGI omits them.
    ended: whether its process is gone before uWSGI's master has noticed. Its requests in service are lost.
    has_application: whether uWSGI has loaded an application in it.
    last_spawn: whole epoch seconds.
    affinity: the CPUs that its process may run on.
    ages: seconds that the request in each busy thread has been in service, by thread number; None if uWSGI does not
        report it. routes: the route of the same request; empty while routes are off. Both are empty if it has ended.
    """

    worker_id: int
    state: WorkerState
    threads: int | None
    ended: bool = False
    has_application: bool = False
    last_spawn: int | None = None
    affinity: tuple[int, ...] | None = None
    ages: Mapping[int, float | None] = {}
    routes: Mapping[int, str] = {}

    @property
    def available_threads(self) -> int | None:
        """Threads that can take a request, now or after their present one; None if its threads are unknown."""
        return self.threads if self.state == "accepting" or self.threads is None else 0


class Cpus(Struct, frozen=True, gc=False):
    """How many CPUs the workers may use (a quota may be a fraction), and the limit that determines it."""

    count: float
    limited_by: Literal["affinity", "quota", "host"]


class Memory(Struct, frozen=True, gc=False):
    """The memory of a server's workers, and what is available for more of them, in bytes.

    per_worker: of the largest worker; an upper bound if `source` is `anonymous`.
    together: of all workers.
    available: on the host, or in the cgroup that limits it.
    """

    per_worker: int
    source: Literal["uss", "anonymous"]
    together: int
    available: int
    limited_by: Literal["host", "cgroup"]

    @property
    def is_exact(self) -> bool:
        """Whether per_worker is exact, not an upper bound."""
        return self.source == "uss"


class ServerRecord(Struct, frozen=True):
    """A server at one instant: the end of a window. None where it is not known.

    address: where it is read, as `check` takes it; empty if unknown.
    document_bytes: the size of its stats document; 0 if unknown.
    processes_off: why nothing is known of the workers' processes, as a sentence for an operator; None if it is.
    master_affinity: the CPUs that the master may run on, which its workers inherit.
    memory: None unless all of it is known.
    waits: of this instant; None if they are switched off.
    queues: by the name of the socket.
    """

    workers: tuple[WorkerRecord, ...]
    address: str = ""
    document_bytes: int = 0
    thunder_lock: bool | None = None
    processes_off: str | None = None
    master_affinity: tuple[int, ...] | None = None
    cpus: Cpus | None = None
    memory: Memory | None = None
    setup: Setup = UNKNOWN
    waits: Waits | None = None
    queues: Mapping[str, Backlog] = {}


class ThrottledVassal(Struct, frozen=True, gc=False):
    """A vassal that fails to start. seconds: the wait before the next attempt; attempts: so far; None if unknown."""

    name: str
    seconds: float | None
    attempts: int | None


class EmperorRecord(Struct, frozen=True):
    """An emperor at one instant. vassals: the number that run."""

    vassals: int
    throttled: tuple[ThrottledVassal, ...]
