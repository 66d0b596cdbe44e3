"""The document of one server, and the list of all: data alone. Whoever reads one decodes it into these."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.findings import Severity
from uwsgi_headroom.analysis.verdict import Status
from uwsgi_headroom.analysis.waiting import Waiting
from uwsgi_headroom.documents.emperor_router import Emperor, Router
from uwsgi_headroom.documents.workers import Worker
from uwsgi_headroom.journal.events import Event
from uwsgi_headroom.kernel.concurrency import ConcurrencyKind

State = Literal["up", "stale", "down"]
"""up: read a moment ago; stale: the last attempt has not ended yet and the last reading is old; down: it failed.
Figures of a server that is not up are those of its last reading."""

Kind = Literal["server", "emperor", "router"]


class Error(Struct, frozen=True, kw_only=True):
    """Why the last attempt to read a server failed. reason: the label of uwsgi_exporter_read_errors_total."""

    reason: str
    message: str


class Unknown(Struct, frozen=True, kw_only=True):
    """Something that is not known, so that it is null, and why: a sentence. socket: of which one, for a queue."""

    what: Literal["figures", "threads", "processes", "residency", "queue"]
    why: str
    socket: str | None


class Window(Struct, frozen=True, kw_only=True):
    """What the figures are over. asked: the window's length, seconds: what there has been of it, less while the history
    is young. observed_seconds of it are covered by samples and gap_seconds are not. reloads, respawns, exceptions and
    harakiris: how many there were in it."""

    asked: float
    seconds: float
    observed_seconds: float
    gap_seconds: float
    reloads: int
    respawns: int
    exceptions: int
    harakiris: int


class Covered(Struct, frozen=True, kw_only=True):
    """A window that can be asked for, and how much of it there has been so far."""

    asked: float
    seconds: float


class Limits(Struct, frozen=True, kw_only=True):
    """The factor by which load can grow until each limit; null where its use is not known, or under a hundredth."""

    hottest_interpreter: float | None
    interpreters: float | None
    threads: float | None
    cpu: float | None


class Headroom(Struct, frozen=True, kw_only=True):
    """factor: the least of `by_limit`; first: the limit that comes first, with that factor, or the cause of others that
    are reached; ceiling: the same of the limits that end throughput, not latency alone. All null where it does next to
    nothing. far: limits that are over 100 times today's load away. is_upper_bound: CPU, which may run out before the
    others, is not visible."""

    factor: float | None
    first: Limit | None
    ceiling: Limit | None
    by_limit: Limits
    far: tuple[Limit, ...] = ()
    is_upper_bound: bool = False


class Flow(Struct, frozen=True, kw_only=True):
    """requests: completed in the window; throughput: requests a second; response_time: mean time in service, static
    files left out; littles_law, observed: mean requests in service, both ways; queue_wait: mean time that a request
    waited in a listen queue; waiting: whether users notice that."""

    requests: int
    throughput: float | None
    response_time: float | None
    littles_law: float | None
    observed: float | None
    queue_wait: float | None
    waiting: Waiting | None = None


class Threads(Struct, frozen=True, kw_only=True):
    """configured: over all worker slots; available: of workers that are up and accepting; busy: serving a request at
    the last reading; stuck: for longer than 30 s. Null with stats-no-cores."""

    configured: int | None
    available: int | None
    busy: int | None
    stuck: int | None


class Occupancy(Struct, frozen=True, kw_only=True):
    """How much of the time how many of the available threads were busy. shares[i]: the part of the samples at which
    busy / available was above up_to[i - 1] and at most up_to[i]; the last but one to the last is "all of them". full:
    the part of the time with every available thread busy."""

    up_to: tuple[float, ...]
    shares: tuple[float, ...]
    full: float | None


class Balance(Struct, frozen=True, kw_only=True):
    """How evenly the active workers share the requests. active: how many there are; even_share: 1 / active; hot_ratio:
    the largest share over the even one; noise_floor: what chance alone makes of it; fairness: Jain's, 1 is even;
    cost: the part of the response time that balancing would save; calm_response_time: of the half with the smaller
    shares; hottest: the id of the worker with the largest share."""

    active: int
    even_share: float | None
    hot_ratio: float | None
    noise_floor: float | None
    fairness: float | None
    cost: float | None
    calm_response_time: float | None
    hottest: int | None


class Socket(Struct, frozen=True, kw_only=True):
    """A socket that requests are taken from. queue, limit: connections waiting at the last reading and how many fit;
    measurable: whether they can be known, else reason says why not; mean_queue: over the window; queue_wait: mean wait
    there, null where there are several sockets, for which request came through which is not known."""

    name: str
    queue: int | None
    limit: int | None
    measurable: bool
    reason: str | None
    mean_queue: float | None
    queue_wait: float | None


class Memory(Struct, frozen=True, kw_only=True):
    """How many more workers fit into memory. available: bytes that the server can still get, limited_by: which has the
    least, the host or a cgroup of the server. per_worker: bytes that the largest worker takes, by source: "uss", its
    unique memory, or "anonymous", an upper bound where that is unknown. more_workers: how many of that size fit. Null:
    unknown."""

    available: int | None
    limited_by: Literal["host", "cgroup"] | None
    per_worker: int | None
    source: Literal["uss", "anonymous"] | None
    more_workers: int | None


class Cpu(Struct, frozen=True, kw_only=True):
    """CPUs over the window, where the server can use CPU: own, in use by its workers and the processes they waited for;
    idle; others, in use by anything else, null where not known. others_follow: whether these grow with the server's
    requests, null where the last hour does not show it."""

    own: float
    idle: float
    others: float | None
    others_follow: bool | None


class Host(Struct, frozen=True, kw_only=True):
    """What the kernel says. cpus: usable by the server, the least of affinity, quota (null: none) and the host's CPUs;
    limited_by: which of them. sharing_one_cpu: workers pinned to a CPU another one is pinned to as well.
    listen_overflows, listen_drops: of TCP listeners, in the whole network namespace, since it began.
    memory: null before it is known."""

    cpus: float | None
    limited_by: Literal["affinity", "quota", "host"] | None
    quota: float | None
    host_cpus: int | None
    sharing_one_cpu: int | None
    listen_overflows: int | None
    listen_drops: int | None
    memory: Memory | None


class Option(Struct, frozen=True, kw_only=True):
    """An option of uWSGI. source: "command line", or the file it was read from, by the name that uWSGI was given."""

    value: int | bool | str | tuple[str, ...]
    source: str


class Setup(Struct, frozen=True, kw_only=True):
    """How the server is set up, as the kernel and its configuration say. options: those known, by uWSGI's names; times
    in seconds, reload-on-* in megabytes. options_complete: none of those looked for is missing, save one set in the
    environment; options_changed: a file was changed after a worker began that still runs, so uWSGI uses what was in it
    before.
    somaxconn: net.core.somaxconn, which caps listen. concurrency_kind: one request at a time in a worker (single), one
    on each of its threads, or many on one thread (async). socket_holders: by socket, ids of the accepting workers that
    take requests from it. mapped: whether a worker does not take requests from every socket (map-socket). Null: not
    known."""

    options: dict[str, Option]
    options_complete: bool
    options_changed: bool
    somaxconn: int | None
    concurrency_kind: ConcurrencyKind | None
    socket_holders: dict[str, tuple[int, ...]] | None
    mapped: bool | None


class Identity(Struct, frozen=True, kw_only=True):
    """Which server this is. pid: of its master, as uWSGI says; host: the name of the host it runs on; application: the
    module or file that its options name, else where its only application is mounted; configuration_file: the first one
    that its command line names, as it is written there; working_directory: of the master; started: when the master's
    process began, in epoch seconds (a reload does not change it), uptime: how long ago that was, in seconds;
    emperor_pid: the uWSGI that began it, whose vassal it is. Null: not visible, or there is none."""

    pid: int | None = None
    host: str | None = None
    application: str | None = None
    configuration_file: str | None = None
    working_directory: str | None = None
    started: float | None = None
    uptime: float | None = None
    emperor_pid: int | None = None


class Sampling(Struct, frozen=True, kw_only=True):
    """How it is watched. interval: mean seconds between samples; duty: part of the time that reading takes; samples,
    observed_seconds, gap_seconds, reloads: since the exporter's start; history_seconds: how far back `history` goes;
    read_seconds, document_bytes: of the last reading."""

    interval: float
    duty: float
    samples: int
    observed_seconds: float
    gap_seconds: float
    reloads: int
    history_seconds: float
    read_seconds: float | None
    document_bytes: int | None


class Finding(Struct, frozen=True, kw_only=True):
    """One thing worth knowing. code: a stable name; title: one sentence; evidence: the figures it rests on; meaning:
    why it matters; change: what to do, empty where there is nothing; runbook: its path, null where there is none.
    since: from when on (epoch seconds) it has been so, as the exporter has seen every few seconds with its window of a
    minute; null where that is not known. event: the latest that it is about."""

    code: str
    severity: Severity
    title: str
    evidence: str
    meaning: str
    change: str
    runbook: str | None
    since: float | None = None
    event: Event | None = None


class Server(Struct, frozen=True, kw_only=True):
    """Everything there is to show of one server.

    time: when the document was made; read_at, age: when the last successful reading was, and how old it is: figures are
    as of then. error: why the last attempt failed. verdict: how it is, in a sentence. kind is null before the first
    reading. window, flow, headroom, balance are null before there are figures (two readings, a second apart), and of
    an emperor or a router, which has its own part. findings: the worst first. thunder_lock: whether it is on.
    cpu: null where the kernel does not say. events: the latest, the newest first; its journal has all.
    """

    name: str
    address: str
    path: str
    time: float
    state: State
    error: Error | None
    read_at: float | None
    age: float | None
    kind: Kind | None
    version: str | None
    status: Status
    verdict: str
    window: Window | None
    windows: tuple[Covered, ...]
    headroom: Headroom | None
    flow: Flow | None
    threads: Threads | None
    occupancy: Occupancy | None
    balance: Balance | None
    workers: tuple[Worker, ...]
    sockets: tuple[Socket, ...]
    host: Host | None
    setup: Setup | None = None
    thunder_lock: bool | None
    findings: tuple[Finding, ...]
    unknown: tuple[Unknown, ...]
    sampling: Sampling
    emperor: Emperor | None
    router: Router | None
    cpu: Cpu | None = None
    identity: Identity | None = None
    events: tuple[Event, ...] = ()


class Journal(Struct, frozen=True, kw_only=True):
    """The events of one server, the newest first: kept as long as its history. since: what was asked for, epoch
    seconds."""

    name: str
    time: float
    since: float
    events: tuple[Event, ...]


class Summary(Struct, frozen=True, kw_only=True):
    """A server in the list of all. path: of its document. headroom: the factor; first, far and is_upper_bound are those
    of its headroom; queue_wait and waiting of its flow; pid and emperor_pid of its identity."""

    name: str
    address: str
    path: str
    state: State
    error: Error | None
    age: float | None
    kind: Kind | None
    version: str | None
    status: Status
    verdict: str
    headroom: float | None
    first: Limit | None
    throughput: float | None
    response_time: float | None
    observed: float | None
    available: int | None
    far: tuple[Limit, ...] = ()
    is_upper_bound: bool = False
    queue_wait: float | None = None
    waiting: Waiting | None = None
    pid: int | None = None
    emperor_pid: int | None = None


class Servers(Struct, frozen=True, kw_only=True):
    """Every server: those that cannot be read first, then by headroom, the least first. version: the exporter's."""

    time: float
    version: str
    servers: tuple[Summary, ...]


class Findings(Struct, frozen=True, kw_only=True):
    """What is worth knowing of one server, the worst first."""

    name: str
    time: float
    state: State
    status: Status
    verdict: str
    findings: tuple[Finding, ...]


class Problem(Struct, frozen=True, kw_only=True):
    """Why a request was not answered: a sentence that says what would be right."""

    error: str
