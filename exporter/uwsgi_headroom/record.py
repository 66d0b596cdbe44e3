"""What is known of a server at one instant, in plain types: the form between those who collect and those who judge.

Collectors fill it (`kernel` its parts, `reading` the whole), and so does a review from the records of a history.
`analysis` takes nothing else, besides windows. It reads nothing and judges nothing. What is unknown is None, with the
reason beside it. What grows is not here but in a window (`history.window`).

`ServerRecord`, near the end, is the whole; above it are its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from msgspec import Struct

from uwsgi_headroom.surroundings import FullDisk, RoleUse, SharedConnection, Silence, Tasks, TrackedConnections, WaysIn


class Backlog(Struct, frozen=True):
    """The connections waiting in a listen queue, and its limit; or None for both, and the reason. A full queue holds
    one more connection than its limit."""

    queue: int | None
    limit: int | None
    reason: str | None

    @property
    def is_full(self) -> bool:
        """Whether one of the next two connections is refused (UNIX) or dropped (TCP)."""
        return self.queue is not None and bool(self.limit) and self.queue >= (self.limit or 0)


class Waiting(NamedTuple):
    """The connections in the listen queues of one socket name at one instant, oldest first."""

    connections: tuple[tuple[int, float | None], ...]
    """For each, a number that identifies it for as long as it waits, and for how many seconds it has waited; None if
    the kernel does not say (UNIX)."""
    is_complete: bool = True
    """Whether these are all of them."""


def is_tcp(name: str) -> bool:
    """Whether a socket name of uWSGI's is that of a TCP socket, for which the kernel counts overflows."""
    _, colon, port = name.rpartition(":")
    return bool(colon) and port.isdecimal() and not name.startswith(("/", "@"))


class Options(Struct, frozen=True):
    """The options of one uWSGI master that advice needs; None for one that is not set or not known. No other option is
    kept: a configuration may hold secrets.

    Times are in seconds, `reload_on_*` in megabytes, and `cheaper_rss_limit_soft` in bytes, as in uWSGI. `async_cores`
    is the option `async`; `workers` and `processes` are one option.
    """

    harakiri: int | None = None
    listen: int | None = None
    max_requests: int | None = None
    max_requests_delta: int | None = None
    min_worker_lifetime: int | None = None
    max_worker_lifetime: int | None = None
    reload_on_rss: int | None = None
    reload_on_as: int | None = None
    evil_reload_on_rss: int | None = None
    need_app: bool | None = None
    single_interpreter: bool | None = None
    lazy_apps: bool | None = None
    thunder_lock: bool | None = None
    cheap: bool | None = None
    idle: int | None = None
    cheaper: int | None = None
    cheaper_initial: int | None = None
    cheaper_step: int | None = None
    cheaper_overload: int | None = None
    cheaper_algo: str | None = None
    cheaper_rss_limit_soft: int | None = None
    processes: int | None = None
    threads: int | None = None
    enable_threads: bool | None = None
    async_cores: int | None = None
    gevent: int | None = None
    gevent_monkey_patch: bool | None = None
    gevent_early_monkey_patch: bool | None = None
    asyncio: int | None = None
    map_socket: tuple[str, ...] | None = None
    post_buffering: int | None = None
    socket_timeout: int | None = None
    http_timeout: int | None = None
    http_keepalive: int | None = None
    master: bool | None = None
    die_on_term: bool | None = None
    die_on_idle: bool | None = None
    spooler_max_tasks: int | None = None
    spooler_harakiri: int | None = None
    threads_stacksize: int | None = None
    worker_reload_mercy: int | None = None
    cpu_affinity: int | None = None
    stats: str | None = None
    strict: bool | None = None
    vacuum: bool | None = None
    buffer_size: int | None = None
    max_fd: int | None = None
    max_worker_lifetime_delta: int | None = None
    chmod_socket: tuple[str, ...] | None = None
    http: tuple[str, ...] | None = None
    http_manage_expect: bool | None = None
    http_to: tuple[str, ...] | None = None
    http_socket: tuple[str, ...] | None = None
    http11_socket: tuple[str, ...] | None = None
    emperor: tuple[str, ...] | None = None
    zerg: tuple[str, ...] | None = None
    emperor_stats: str | None = None
    source: Mapping[str, str] = {}
    """By field, where it is set: "command line", or the name of the file as uWSGI got it."""
    names_application: bool = False
    """Whether one of the options that name an application is known to be set, to any value."""
    can_reload_workers: bool = False
    """Whether an option is known to be set with which the workers can be reloaded while the master stays."""
    logs_requests: bool = False
    """Whether each request is known to have a line in uWSGI's log, in its own format."""
    ends_workers: tuple[str, ...] = ()
    """The options without a field here that end workers while uWSGI runs, such as `reload-on-exception`."""
    purging_caches: tuple[str, ...] = ()
    """The names of caches that drop an old item when they are full (`purge_lru`)."""
    application: str = ""
    """The module or file that the option names; empty if unknown or not a plain name."""
    configuration_files: tuple[str, ...] = ()
    """Those on the command line, as written there, in the order in which uWSGI loads them; empty texts for those whose
    names are not plain."""
    log_files: tuple[str, ...] = ()
    """The absolute paths that options name for uWSGI's log, in the order in which uWSGI reads them."""
    complete: bool = False
    """Whether every option outside of the environment (`UWSGI_*` is never read) is known. If so, None means that
    uWSGI's default applies."""
    changed: bool = False
    """Whether a file was changed after the start of a worker that still runs, so that uWSGI still uses the old
    options."""

    @property
    def configuration_file(self) -> str:
        """The file that is the application's own: the last one that no distribution installed; empty if unknown."""
        own = (name for name in reversed(self.configuration_files) if not name.startswith(DISTRIBUTIONS_FILES))
        return next(own, "")


def spell_option(field_name: str) -> str:
    """uWSGI's name of the option that a field of Options has."""
    return "async" if field_name == "async_cores" else field_name.replace("_", "-")


DISTRIBUTIONS_FILES = "/usr/share/"
"""Where Debian's package keeps the file that it gives to every uWSGI before the application's own."""


ConcurrencyKind = Literal["threads", "async", "single"]

SocketHolders = Mapping[str, tuple[int, ...]]


class Setup(Struct, frozen=True):
    """How a server is set up."""

    options: Options
    somaxconn: int | None
    """The sysctl net.core.somaxconn, which caps `listen`; None in another network that this user may not enter."""
    concurrency_kind: ConcurrencyKind | None
    """Whether a worker serves one request at a time (single), one per thread (threads), or many on one thread (async:
    gevent, ugreen and the like); None if unknown."""
    socket_holders: SocketHolders | None
    """By socket name, the ids of the accepting workers that hold it; None if hidden. One not found is left out."""
    mapped: bool | None
    """Whether some worker does not take requests from every socket (`map-socket`); None if unknown."""
    log_path: str = ""
    """The file of uWSGI's log, or `journal:UNIT`; empty if unknown, or no file that this user can see."""
    full_disks: tuple[FullDisk, ...] = ()
    metrics_files: tuple[str, int] = ("", 0)
    """The folder of prometheus_client's files of all processes, and their number; empty if there is none."""
    why_unknown: str = ""
    """Why nothing is known; empty if it is."""


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

WORKING: tuple[State, ...] = ("backend", "dns", "disk", "sleep", "child", "pipe")
"""In these, a thread may hold what others wait for all the time: it waits for nobody of its process, and for no CPU."""


Holder = Literal["request", "processes", "thread", "nobody"]
"""Who holds what threads wait for as for a lock. request: another request of the same worker. processes: a request of
any worker, as of `multiprocessing.Lock`, `uwsgi.lock()` or flock(2). thread: no request, but a thread of the worker
that serves none. nobody: no two threads wait for the same thing, as in condition variables of a library: they do not
queue for a lock."""


Output = Literal["standard output", "standard error", "standard output and error", "log socket"]
"""The outputs of a process that may be pipes; the third one if both are the same pipe. log socket: a UNIX datagram
socket, as that of syslog."""


class Blocker(NamedTuple):
    """What holds the event loop of a worker with coroutines, or the main thread of one that starts."""

    state: State
    address: str = ""
    """Of the other end of its connection; empty if it waits for none, or if unknown."""
    how: Literal["", "connection", "file"] = ""
    """Whether the connection is not made yet, or the lock is that of a file."""


class LoopUse(NamedTuple):
    """The event loop of a worker with coroutines at one instant, if something has held it since the worker's start."""

    hold: Blocker
    """What holds it most, as of the last samples of a held loop."""
    held: bool
    """Whether something holds it now."""
    longest: float
    """The longest time of the last minute, in seconds, in which it was held, and no request was completed."""


class LockHolder(NamedTuple):
    """A mule that holds a lock of `uwsgi.lock()` for which requests wait."""

    pid: int
    lock: int
    """Its number, the argument of `uwsgi.lock()`."""
    part: float
    """Of the samples in which requests wait for a lock of all processes: those in which this process holds it."""


class LockUse(NamedTuple):
    """A lock of the application at one instant. waited: whether a thread waits for it; held: whether a thread holds it,
    None if that may not be read."""

    waited: bool
    held: bool | None


class Destination(NamedTuple):
    """What a thread waits for outside of this server."""

    state: Literal["backend", "dns"]
    addresses: tuple[str, ...] = ()
    """As in `ss`: `10.0.0.5:5432`, or the path of a UNIX socket; empty if unknown, several if it is one of them."""
    connecting: bool = False
    """Whether its connection is not made yet, or is lost."""


class Program(NamedTuple):
    """A program of this host; its name is empty if unknown. cpus: the CPU seconds a second of the process that listens,
    without those of its children."""

    name: str
    cpus: float | None = None


class Waits(Struct, frozen=True):
    """What the request threads of a server wait for at one instant."""

    off: str | None = None
    """Why that is unknown, as a sentence; then nothing else is set but `file_lock`, `loops` and
    `needs_right`: whether another user of this host, such as root, could see it."""
    needs_right: bool = False
    threads: Mapping[State, float] = {}
    """The mean number of threads in each state that is not 0; of a random part of the threads, an unbiased estimate."""
    interpreter_lock: Mapping[int, float] = {}
    """The same for the interpreter lock, by worker id."""
    backends: Mapping[str, float] = {}
    """The same for the backends that are configured, by their name."""
    addresses: Mapping[str, str] = {}
    """The address of each. `threads["backend"]` includes them."""
    programs: Mapping[str, Program] = {}
    """Those that listen at addresses of this host for which threads wait, by address."""
    shared: float = 0.0
    """The mean number of threads that wait for an answer over a connection that workers share."""
    output: float = 0.0
    """The mean number of threads whose output a pipe or the log's socket does not take; in `threads["pipe"]`, too."""
    output_name: Output | None = None
    """Which output that is, or was when a thread last waited for it; None if none ever did."""
    output_socket: str = ""
    """The path of the log's socket, if that is the output."""
    pool_variable: str = ""
    """The environment variable that bounds the threads of a library which computes in several; empty without one."""
    file_system: tuple[str, str] = ("", "")
    """For whose answer threads in `disk` mostly wait: its kind, such as NFS, and its mount; empty if unknown."""
    websockets: float = 0.0
    """The mean number of threads that wait for what their clients send after a request, as with WebSockets."""
    endless: float = 0.0
    """Those of them that nothing but their client wakes: WebSockets wake up to send a ping."""
    writing: float = 0.0  # threads that wait until clients read more
    streams: tuple[tuple[int, int], ...] = ()
    """The old requests that go on, as event streams do, by worker id and number of the thread."""
    pools: Mapping[int, int] = {}
    """The size of the pool for which threads wait, by worker id: so many are `WORKING` while others wait for a lock."""
    holder: Holder | None = None
    """Who holds what most threads in `lock` wait for; None if too few were seen."""
    holder_backend: str = ""
    """The address of the backend for which a request waits that holds the lock; empty if it is not known to do so."""
    nap: float | None = None
    """For how many seconds threads in `sleep` do so at a time; infinite if once, None if too few were seen."""
    turn: float | None = None
    """The seconds between two times at which a thread that asks backends or computes is put on a CPU; as `nap`."""
    destinations: Mapping[Destination, float] = {}
    """The mean number of threads that wait for each: together those in `backend` and `dns`."""
    busy: int = 0
    """Threads with a request in service according to uWSGI's document, which is read a moment earlier."""
    gaps: tuple[str, ...] = ()
    """Why threads are `unknown`, as sentences."""
    locks: Mapping[int, LockUse] = {}
    """Of each worker in which a lock of the application is known, by worker id: the one that is used most."""
    reads_locks: bool = False
    """Whether it is read if the locks are held."""
    file_lock_holder: int | None = None
    """The PID of the process for which threads wait that want the lock of a file; 0 if that process has ended, and one
    that it started has the open file, and so the lock; None if no thread waits, or if unknown."""
    uwsgi_lock_holder: LockHolder | None = None
    """None if it is no mule, or not known."""
    file_lock: LockUse | None = None
    """The lock of a file that is used most by all workers together; None if none is known."""
    lookups: tuple[float, float] = (0.0, 0.0)
    """Of the threads beside an event loop, how many look up names, and how many there are; means."""
    loops: Mapping[int, LoopUse] | None = None
    """The event loops of workers with coroutines, by worker id, that something holds or held; None if unknown."""


NO_WAITS = Waits()


DEFAULT_MIN_LIFETIME = 10
"""Seconds of `min-worker-lifetime`, in all versions (core/init.c); the `--help` of those before 2.0.25 says 60."""

Ending = Literal["max_requests", "max_worker_lifetime", "unknown"]
"""Why uWSGI ends a worker as soon as its requests are completed: an option that it has reached, or anything else, such
as a reload."""

WorkerState = Literal["accepting", "paused", "reserve", "down"]
"""accepting: takes requests. paused: takes none until it is resumed. reserve: cheaper mode spawns it when load grows.
down: has no process, or does not accept yet."""


class WorkerRecord(Struct, frozen=True, gc=False):
    worker_id: int
    state: WorkerState
    threads: int | None
    """None if uWSGI omits them."""
    pid: int | None = None
    """Of its process, as uWSGI reports it."""
    open_fds: int | None = None
    """Open files and sockets of its process."""
    most_fds: int | None = None
    """How many it may have open; None if unlimited."""
    address_left: int | None = None
    """Bytes of address space that it may still take (`limit-as`); None if unlimited."""
    local_pid: int | None = None
    """The same process on the exporter's side of a PID namespace; None unless it is proven to be a worker."""
    ended: bool = False
    """Whether its process is gone before uWSGI's master has noticed. Its requests in service are lost."""
    has_application: bool | None = False
    """Whether uWSGI has loaded an application in it; None without its stats."""
    last_spawn: int | None = None
    """Epoch seconds."""
    starting: float | None = None
    """Seconds since its spawn, while it accepts no requests yet."""
    start_wait: Blocker | None = None
    """What it waits for meanwhile, as of the last look; None if unknown."""
    requests_per_life: float | None = None
    """Requests that the processes of the slot that ended have completed, on average; None if none has ended since
    uWSGI's start, or if it is unknown."""
    ending: Ending | None = None
    """Why it takes no other request, and ends when those in service have ended; None if it does not."""
    is_stopped: bool = False
    """By a signal."""
    tracer: tuple[int, str] = (0, "")
    """The process that traces it, and its name; 0 without one."""
    affinity: tuple[int, ...] | None = None
    """The CPUs that its process may run on."""
    low_bytes: int | None = None
    """The least resident memory that its process had in the last seconds."""
    threads_since: float = 0.0
    """When the number of threads of its process was last seen to change, in monotonic seconds; 0 if never."""
    ages: Mapping[int, float | None] = {}
    """For how many seconds the request in each busy thread has been in service, by thread number; None if unknown."""
    routes: Mapping[int, str] = {}
    """The route of the same request; empty while routes are off. Both are empty if it has ended."""

    @property
    def available_threads(self) -> int | None:
        """Threads that can take a request, now or after their present one; None if its threads are unknown."""
        takes = self.state == "accepting" and self.ending is None
        return self.threads if takes or self.threads is None else 0


class Cpus(Struct, frozen=True, gc=False):
    """How many CPUs the workers may use (a quota may be a fraction), and the limit that determines it."""

    count: float
    limited_by: Literal["affinity", "quota", "host"]


class Quota(NamedTuple):
    """The CPU quota of a cgroup of the server: the one that stops its processes most, if any does."""

    cgroup: str
    """Its path, as the kernel names it; `/` is the top of the exporter's cgroup namespace, such as its container."""
    cpus: float
    most: int
    """The CPUs that the workers could run on without it."""


class MemoryPressure(Struct, frozen=True, gc=False):
    """The parts of the last minute in which processes waited for memory, as the kernel counts them (PSI)."""

    some: float
    """In which at least one process waited."""
    full: float
    """In which all that had work waited, so that nothing went on."""
    of: Literal["cgroup", "host"]
    """Whose processes: of the server's own cgroup, or all of the host."""


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
    pressure: MemoryPressure | None = None
    """None if the kernel does not count it."""

    @property
    def is_exact(self) -> bool:
        """Whether per_worker is exact, not an upper bound."""
        return self.source == "uss"

    def has_room(self, more: int) -> bool | None:
        """Whether so many more workers fit into what is available; None if only an upper bound says no."""
        return max(0, more) * self.per_worker <= self.available or (False if self.is_exact else None)


class CacheRecord(Struct, frozen=True, gc=False):
    """A cache of uWSGI. Sizes are in items; None if unknown. full: items that it refused, since uWSGI's start."""

    name: str
    items: int | None
    max_items: int | None
    full: int | None


class SpoolerRecord(Struct, frozen=True, gc=False):
    """A directory of tasks, and the processes that work on them."""

    directory: str
    processes: int
    tasks: int | None
    """That wait in it or are processed; None if the directory may not be listed."""


class LogMessage(Struct, frozen=True, gc=False):
    """How often uWSGI's log had one message in a window."""

    count: int
    agreed: int
    """For how many of these lines a counter or a process agreed: the application writes to the same log."""
    workers: tuple[int, ...] = ()
    signals: tuple[int, ...] = ()
    """The workers and the signals that they name."""
    limit: int | None = None
    """The number in the last of them, such as the size of a buffer."""
    place: str = ""
    """What most of them name: the type of an exception and where it was raised, `KeyError at shop/views.py:12`."""


class LogRecord(Struct, frozen=True):
    """What uWSGI's log said in a window."""

    off: str | None = None
    """Why the log is not read, as the end of a sentence; None if it is read."""
    turn_on: str = ""
    """The flag that reads it; empty if it is read, or if its file is not known."""
    messages: Mapping[str, LogMessage] = {}
    """By the code of the message (`uwsgi_log.messages`); only those that were seen."""


class ServerRecord(Struct, frozen=True):
    """A server at one instant: the end of a window. None where it is not known."""

    workers: tuple[WorkerRecord, ...]
    address: str = ""
    """Where it is read, as `check` takes it; empty if unknown."""
    time: float | None = None
    """Of this instant, in epoch seconds."""
    document_bytes: int = 0
    """The size of its stats document; 0 if unknown."""
    version: str = ""
    """Of uWSGI; empty if unknown."""
    mounted: int | None = None
    """The most applications that a worker has loaded."""
    is_vassal: bool = False
    """Whether an emperor is known to run it."""
    thunder_lock: bool | None = None
    accept_lock_holder: int | None = None
    """By uWSGI, the PID of the process that holds `thunder-lock`, and so accepts the next request; None for nobody."""
    caches: tuple[CacheRecord, ...] = ()
    spoolers: tuple[SpoolerRecord, ...] = ()
    processes_off: str | None = None
    """Why nothing is known of the workers' processes, as a sentence; None if they are known."""
    master_affinity: tuple[int, ...] | None = None
    """The CPUs that the master may run on, which its workers inherit."""
    cpus: Cpus | None = None
    quota: Quota | None = None
    """None if there is no quota, or if it is not known how often it stops the workers."""
    memory: Memory | None = None
    """None unless all of it is known."""
    setup: Setup = UNKNOWN
    waits: Waits | None = None
    """Of this instant; None if they are switched off."""
    roles: tuple[RoleUse, ...] = ()
    """uWSGI's processes that are no workers; empty if they are not visible."""
    shared_connections: tuple[SharedConnection, ...] = ()
    """Empty also where descriptors are hidden."""
    queues: Mapping[str, Backlog] = {}
    """By the name of the socket."""
    ways_in: WaysIn = WaysIn()
    tracked: TrackedConnections | None = None
    """Of the network namespace, if it is the exporter's; None if connections are not tracked, too."""
    tasks: Tasks | None = None
    """None without a limit, or if unknown."""
    starved: int = 0
    unrequested: int = 0
    left: tuple[float, ...] = ()
    answered: int = 0
    clients: tuple[int, int] = (0, 0)
    """As of `HostFacts`."""
    log: LogRecord | None = None
    """Of the window that ends at this instant; None if nothing is known of a log."""
    silence: Silence | None = None
    """None while its stats answer, and for a server without stats."""
    empty_seconds: float = 0.0
    """How long its stats were empty in the window that ends at this instant (`errors.BlindError`)."""

    @property
    def cpu_count(self) -> float | None:
        """How many CPUs the workers may use, by `cpus`."""
        return self.cpus.count if self.cpus else None

    @property
    def sample(self) -> Waits:
        """What the threads wait for at this instant; nothing if that is switched off."""
        return self.waits or NO_WAITS

    @property
    def messages(self) -> Mapping[str, LogMessage]:
        """Of uWSGI's log, by their codes; empty if nothing is known of a log."""
        return (self.log or LogRecord()).messages


class Outage(Struct, frozen=True, gc=False):
    """A time in which a server was down, until another master of it was read (epoch seconds)."""

    seconds: float
    until: float
