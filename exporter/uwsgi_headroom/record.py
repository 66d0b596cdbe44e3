"""What is known of a server at one instant, in plain types: the form between those who collect and those who judge.

Collectors fill it (`kernel` its parts, `reading` the whole), and so does a review from the columns of a history.
`analysis` takes nothing else, besides windows. This package imports no other, reads nothing and judges nothing. What is
unknown is None, with the reason beside it. What grows is not here but in a window (`history.window`).

`ServerRecord`, near the end, is the whole; above it are its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from msgspec import Struct


@dataclass(frozen=True, slots=True)
class Backlog:
    """The connections waiting in a listen queue, and its limit; or None for both, and the reason.

    `queue` may exceed `limit` by one: a full queue holds one more connection than its limit.
    """

    queue: int | None
    limit: int | None
    reason: str | None

    @property
    def is_full(self) -> bool:
        """Whether the queue is at its limit, so that the next connection is refused (UNIX) or dropped (TCP)."""
        return self.queue is not None and bool(self.limit) and self.queue >= (self.limit or 0)


def is_tcp(name: str) -> bool:
    """Whether a socket name of uWSGI's is that of a TCP socket, for which the kernel counts overflows."""
    _, colon, port = name.rpartition(":")
    return bool(colon) and port.isdecimal() and not name.startswith(("/", "@"))


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one uWSGI master that advice needs; None for one that is not set or not known. No other option is
    kept: a configuration may hold secrets.

    Times are in seconds and `reload_on_*` in megabytes, as in uWSGI. `async_cores` is the option `async`; `workers` and
    `processes` are one option.
    """

    harakiri: int | None = None
    listen: int | None = None
    max_requests: int | None = None
    max_requests_delta: int | None = None
    max_worker_lifetime: int | None = None
    reload_on_rss: int | None = None
    reload_on_as: int | None = None
    evil_reload_on_rss: int | None = None
    need_app: bool | None = None
    single_interpreter: bool | None = None
    lazy_apps: bool | None = None
    thunder_lock: bool | None = None
    cheaper: int | None = None
    cheaper_initial: int | None = None
    cheaper_step: int | None = None
    cheaper_overload: int | None = None
    cheaper_algo: str | None = None
    processes: int | None = None
    threads: int | None = None
    enable_threads: bool | None = None
    async_cores: int | None = None
    gevent: int | None = None
    asyncio: int | None = None
    ugreen: bool | None = None
    map_socket: tuple[str, ...] | None = None
    post_buffering: int | None = None
    socket_timeout: int | None = None
    http_timeout: int | None = None
    master: bool | None = None
    die_on_term: bool | None = None
    worker_reload_mercy: int | None = None
    cpu_affinity: int | None = None
    stats: str | None = None
    memory_report: bool | None = None
    source: Mapping[str, str] = field(default_factory=dict)
    """By field, where it is set: "command line", or the name of the file as uWSGI got it."""
    names_application: bool = False
    """Whether one of the options that name an application is known to be set, to any value."""
    can_reload_workers: bool = False
    """Whether an option is known to be set with which the workers can be reloaded while the master stays."""
    application: str = ""
    """The module or file that the option names; empty if unknown or not a plain name."""
    configuration_files: tuple[str, ...] = ()
    """Those on the command line, as written there, in the order in which uWSGI loads them; empty texts for those whose
    names are not plain."""
    complete: bool = False
    """Whether every option outside of the environment (`UWSGI_*` is never read) is known. If so, None means that
    uWSGI's default applies."""
    changed: bool = False
    """Whether a file was changed after the start of a worker that still runs, so that uWSGI still uses the old
    options."""

    @property
    def configuration_file(self) -> str:
        """The file that is the application's own: the last one that no distribution installed; empty if unknown."""
        names = [name for name in self.configuration_files if not name.startswith(DISTRIBUTIONS_FILES)]
        return names[-1] if names else ""


DISTRIBUTIONS_FILES = "/usr/share/"
"""Where Debian's package keeps the file that it gives to every uWSGI before the application's own."""


ConcurrencyKind = Literal["threads", "async", "single"]

SocketHolders = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Setup:
    """How a server is set up."""

    options: Options
    somaxconn: int | None
    """The sysctl net.core.somaxconn, which caps `listen`; None if the server has another network namespace, and
    this user may not enter it."""
    concurrency_kind: ConcurrencyKind | None
    """Whether a worker serves one request at a time (single), one per thread (threads), or many on one thread (async:
    gevent, ugreen and the like); None if unknown."""
    socket_holders: SocketHolders | None
    """By socket name as in the stats document, the ids of the accepting workers that take requests from the socket;
    None if descriptors are hidden. A socket that is not found is left out."""
    mapped: bool | None
    """Whether some worker does not take requests from every socket (`map-socket`); None if unknown."""


UNKNOWN = Setup(Options(), None, None, None, None)
"""The setup of a server of which nothing is known."""


State = Literal[
    "cpu",
    "cpu_wait",
    "interpreter_lock",
    "backend",
    "client",
    "dns",
    "disk",
    "lock",
    "sleep",
    "child",
    "pipe",
    "other",
    "unknown",
]
"""What a thread with a request in service does.

cpu: it runs. cpu_wait: it could run, but all CPUs are taken. interpreter_lock: it waits for CPython's global lock.
backend: for an answer of another server, such as a database. client: for the client of its request, to send or to
receive. dns: for a name server. disk: for a file or a block device, page faults included. lock: for a lock of the
application or of a library, a file lock, a semaphore. sleep: for time to pass. child: for a process that it started.
pipe: for a pipe. other: for something else that is known. unknown: the kernel's facts do not decide it.
"""

STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True, slots=True)
class Waits:
    """What the request threads of a server wait for at one instant."""

    off: str | None = None
    """Why that is unknown, as a sentence for an operator; then nothing else is set but `needs_right`: whether another
    user of this host, such as root, could see it."""
    needs_right: bool = False
    threads: Mapping[State, float] = field(default_factory=dict)
    """The mean number of threads in each state that is not 0. If a random part of the threads was looked at, the
    numbers are weighted: each is an unbiased estimate."""
    interpreter_lock: Mapping[int, float] = field(default_factory=dict)
    """The same for the interpreter lock, by worker id."""
    backends: Mapping[str, float] = field(default_factory=dict)
    """The same for the backends that are configured, by their name."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """The address of each. `threads["backend"]` includes them."""
    busy: int = 0
    """Threads with a request in service according to uWSGI's document, which is read a moment earlier."""
    gaps: tuple[str, ...] = ()
    """Why threads are `unknown`, as sentences for an operator."""


WorkerState = Literal["accepting", "paused", "reserve", "down"]
"""accepting: takes requests. paused: takes none until it is resumed. reserve: cheaper mode spawns it when load grows.
down: has no process, or does not accept yet."""


class WorkerRecord(Struct, frozen=True, gc=False):
    """One worker slot."""

    worker_id: int
    state: WorkerState
    threads: int | None
    """None if uWSGI omits them."""
    ended: bool = False
    """Whether its process is gone before uWSGI's master has noticed. Its requests in service are lost."""
    has_application: bool = False
    """Whether uWSGI has loaded an application in it."""
    last_spawn: int | None = None
    """Whole epoch seconds."""
    affinity: tuple[int, ...] | None = None
    """The CPUs that its process may run on."""
    ages: Mapping[int, float | None] = {}
    """Seconds that the request in each busy thread has been in service, by thread number; None if uWSGI does not report
    it."""
    routes: Mapping[int, str] = {}
    """The route of the same request; empty while routes are off. Both are empty if it has ended."""

    @property
    def available_threads(self) -> int | None:
        """Threads that can take a request, now or after their present one; None if its threads are unknown."""
        return self.threads if self.state == "accepting" or self.threads is None else 0


class Cpus(Struct, frozen=True, gc=False):
    """How many CPUs the workers may use (a quota may be a fraction), and the limit that determines it."""

    count: float
    limited_by: Literal["affinity", "quota", "host"]


class Memory(Struct, frozen=True, gc=False):
    """The memory of a server's workers, and what is available for more of them, in bytes."""

    per_worker: int
    """Of the largest worker; an upper bound if `source` is `anonymous`."""
    source: Literal["uss", "anonymous"]
    together: int
    """Of all workers."""
    available: int
    """On the host, or in the cgroup that limits it."""
    limited_by: Literal["host", "cgroup"]

    @property
    def is_exact(self) -> bool:
        """Whether per_worker is exact, not an upper bound."""
        return self.source == "uss"


class ServerRecord(Struct, frozen=True):
    """A server at one instant: the end of a window. None where it is not known."""

    workers: tuple[WorkerRecord, ...]
    address: str = ""
    """Where it is read, as `check` takes it; empty if unknown."""
    document_bytes: int = 0
    """The size of its stats document; 0 if unknown."""
    thunder_lock: bool | None = None
    processes_off: str | None = None
    """Why nothing is known of the workers' processes, as a sentence for an operator; None if they are known."""
    master_affinity: tuple[int, ...] | None = None
    """The CPUs that the master may run on, which its workers inherit."""
    cpus: Cpus | None = None
    memory: Memory | None = None
    """None unless all of it is known."""
    setup: Setup = UNKNOWN
    waits: Waits | None = None
    """Of this instant; None if they are switched off."""
    queues: Mapping[str, Backlog] = {}
    """By the name of the socket."""


class ThrottledVassal(Struct, frozen=True, gc=False):
    """A vassal that fails to start."""

    name: str
    seconds: float | None
    """The wait before the next attempt; None if unknown."""
    attempts: int | None
    """Attempts so far; None if unknown."""


class EmperorRecord(Struct, frozen=True):
    """An emperor at one instant."""

    vassals: int
    """The number that run."""
    throttled: tuple[ThrottledVassal, ...]
