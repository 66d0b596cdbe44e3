"""The documents of the API as data types, for building and for decoding them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from uwsgi_headroom.analysis.balance import Balance
from uwsgi_headroom.analysis.capacity import CpuShares, Headroom, Limit
from uwsgi_headroom.analysis.findings import Severity
from uwsgi_headroom.analysis.littles_law import Flow, Waiting
from uwsgi_headroom.analysis.objective import Objective
from uwsgi_headroom.analysis.percentiles import Percentile, ResponseTimes
from uwsgi_headroom.analysis.verdict import Status
from uwsgi_headroom.analysis.wait_states import WaitFigures
from uwsgi_headroom.analysis.what_if.predict import WhatIf
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.documents.deploys import Deploy
from uwsgi_headroom.documents.subjects import Code, Emperor, Route, Router, WorkerSection
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.record import ConcurrencyKind
from uwsgi_headroom.watch.observation import NotWatched, Pattern

State = Literal["up", "stale", "down"]
"""up: read a moment ago; stale: the last reading is old and the current attempt has not ended; down: the last attempt
failed. Figures of a server that is not up are those of its last reading."""

Kind = Literal["server", "emperor", "router"]


class Error(Struct, frozen=True, kw_only=True):
    """Why the last attempt to read a server failed. reason: the label of uwsgi_exporter_read_errors_total; harm: what
    users feel of it; change: what to do; both in sentences, may be empty; runbook: its path, or null."""

    reason: str
    message: str
    harm: str = ""
    change: str = ""
    runbook: str | None = None


UnknownPart = Literal[
    "figures", "threads", "processes", "residency", "queue", "limits", "options", "waits", "log", "texts"
]


class Unknown(Struct, frozen=True, kw_only=True):
    """An unknown value, which is null, and the reason as a sentence. socket: its name, for an unknown queue. For waits,
    there may be several reasons why a part of the threads is in the state `unknown`."""

    what: UnknownPart
    why: str
    socket: str | None


class WindowSection(Struct, frozen=True, kw_only=True):
    """The window of the figures. asked: its requested length; seconds: the length of its history, less while the
    history is young. Samples cover observed_seconds of it and miss gap_seconds. reloads, respawns, exceptions,
    harakiris: their number in the window; the last three are null without uWSGI's stats."""

    asked: float
    seconds: float
    observed_seconds: float
    gap_seconds: float
    reloads: int
    respawns: int | None
    exceptions: int | None
    harakiris: int | None


class Covered(Struct, frozen=True, kw_only=True):
    """A window that can be requested. asked: its length; seconds: the length of its history so far."""

    asked: float
    seconds: float


class Threads(Struct, frozen=True, kw_only=True):
    """Numbers of threads. configured: in all worker slots; available: in workers that accept, and are not to end; busy:
    serving a request at the last reading; stuck: serving one for `stuck_seconds` or longer. mean: the mean number of
    available threads over the window, to compare with the concurrency in `flow`. Null with stats-no-cores.
    stuck_seconds: a setting. held: whether clients that keep their connections hold available threads between requests,
    uWSGI does not say how many."""

    configured: int | None
    available: int | None
    busy: int | None
    stuck: int | None
    stuck_seconds: float = STUCK_SECONDS
    mean: float | None = None
    held: bool = False


class Occupancy(Struct, frozen=True, kw_only=True):
    """Share of the time by busy threads. shares[i]: share of the samples with up_to[i - 1] < busy / available <=
    up_to[i]; the last level means all threads. full: share of the time with every available thread busy."""

    up_to: tuple[float, ...]
    shares: tuple[float, ...]
    full: float | None


class Socket(Struct, frozen=True, kw_only=True):
    """A socket that receives requests. queue, limit: connections waiting at the last reading, and how many fit;
    measurable: whether both can be known, else reason says why not; mean_queue: over the window; queue_wait: mean wait,
    null if its workers serve other sockets as well, as the socket of a request is unknown; wait_is_floor: as in the
    flow. oldest_wait: for how long the oldest request in the queue has waited at the last reading, 0 if it is empty.
    full: share of the window in which the queue was at its limit, and clients were refused."""

    name: str
    queue: int | None = None
    limit: int | None = None
    measurable: bool
    reason: str | None = None
    mean_queue: float | None = None
    queue_wait: float | None = None
    oldest_wait: float | None = None
    full: float | None = None
    wait_is_floor: bool = False


class MemorySection(Struct, frozen=True, kw_only=True):
    """How many more workers fit into memory. available: bytes still available to the server; limited_by: the host or a
    cgroup of the server, whichever has less. per_worker: bytes of the largest worker; source: "uss", its unique memory,
    or "anonymous", an upper bound if that is unknown. more_workers: how many more of that size fit. Null: unknown."""

    available: int | None = None
    limited_by: Literal["host", "cgroup"] | None = None
    per_worker: int | None = None
    source: Literal["uss", "anonymous"] | None = None
    more_workers: int | None = None


class HostSection(Struct, frozen=True, kw_only=True):
    """Figures of the kernel. cpus: usable by the server, the least of affinity, quota (null: none) and the host's
    CPUs; limited_by: which of these. sharing_one_cpu: workers pinned to a CPU to which another worker is pinned too.
    listen_overflows, listen_drops: of all TCP listeners in the network namespace, since its creation. memory: null
    until known."""

    cpus: float | None = None
    limited_by: Literal["affinity", "quota", "host"] | None = None
    quota: float | None = None
    host_cpus: int | None = None
    sharing_one_cpu: int | None = None
    listen_overflows: int | None = None
    listen_drops: int | None = None
    memory: MemorySection | None = None


class Option(Struct, frozen=True, kw_only=True):
    """An option of uWSGI. source: "command line", or the file that sets the option, named as on the command line."""

    value: int | bool | str | tuple[str, ...]
    source: str


class SetupSection(Struct, frozen=True, kw_only=True):
    """The server's setup, from the kernel and the configuration. options: the known ones, by uWSGI's names; times in
    seconds, reload-on-* in megabytes. options_complete: no relevant option is missing, unless set in the environment;
    options_changed: a file was changed after the start of a running worker, so uWSGI still uses its earlier content.
    somaxconn: net.core.somaxconn, which caps listen. concurrency_kind: one request at a time per worker (single), one
    per thread (threads), or many on one thread (async). socket_holders: by socket, ids of the accepting workers that
    take requests from that socket. mapped: whether some worker does not take requests from every socket (map-socket).
    Null: unknown."""

    options: dict[str, Option]
    options_complete: bool
    options_changed: bool
    somaxconn: int | None
    concurrency_kind: ConcurrencyKind | None
    socket_holders: dict[str, tuple[int, ...]] | None
    mapped: bool | None


class Identity(Struct, frozen=True, kw_only=True):
    """Identifies a server. pid: of the master, as uWSGI reports it; local_pid: in the exporter's PID namespace; host:
    name of the host; application: the module or file that its options name, else the mountpoint of its only
    application; configuration_file: its own, the last on the command line, as written there; working_directory: of the
    master; started: start of the master's process in epoch seconds, which a reload does not change; uptime: seconds
    since then; emperor_pid: of the uWSGI emperor that started this vassal. Null: not visible, or none."""

    pid: int | None = None
    local_pid: int | None = None
    host: str | None = None
    application: str | None = None
    configuration_file: str | None = None
    working_directory: str | None = None
    started: float | None = None
    uptime: float | None = None
    emperor_pid: int | None = None


class Sampling(Struct, frozen=True, kw_only=True):
    """How the exporter samples a server. interval: mean seconds between samples; duty: share of the time spent reading;
    samples, observed_seconds, gap_seconds, reloads: since the exporter's start; history_seconds: length of `history`;
    read_seconds, document_bytes: of the last reading."""

    interval: float
    duty: float | None = None
    samples: int
    observed_seconds: float
    gap_seconds: float
    reloads: int
    history_seconds: float
    read_seconds: float | None = None
    document_bytes: int | None = None


class KeptHistory(Struct, frozen=True, kw_only=True):
    """The history that lasts, in a file. since: how far back it reaches, in epoch seconds; null if there is nothing
    yet. problem: why nothing is written to it at the moment, as a sentence, else null."""

    since: float | None
    problem: str | None


class Harm(Struct, frozen=True):
    """What users feel of a cause. code: a stable name; title: one sentence; evidence: its figures."""

    code: str
    severity: Severity
    title: str
    evidence: str


class FindingSection(Struct, frozen=True, kw_only=True):
    """A finding. code: a stable name; title: one sentence; evidence: its figures; meaning: why it matters; change: what
    to do, may be empty; settings: options of uWSGI that it sets to a number; serves: requests per second that the
    server then serves at least, or null; harms: those that this finding explains; runbook: its path, or null. since:
    when it began to hold (epoch seconds), judged every few seconds from the last minute; null if unknown. event: the
    latest event of this kind. of_host: whether the host lacks something, so that no setting of this uWSGI helps."""

    code: str
    severity: Severity
    title: str
    evidence: str
    meaning: str
    change: str
    settings: dict[str, int] = {}
    serves: float | None = None
    harms: tuple[Harm, ...] = ()
    runbook: str | None
    since: float | None = None
    event: Event | None = None
    of_host: bool = False


Tone = Literal["ok", "warning", "critical", "unknown"]


class TextLine(Struct, frozen=True, kw_only=True):
    """A line about a server, for people. code: a stable name, such as `users_wait`; label: what it is about, empty if
    it goes on with the line before; parts: texts that follow each other, the first of which can stand alone; tone: how
    bad it is, null if it is neither good nor bad; rank: lines with a larger one are left out first."""

    code: str
    label: str
    parts: tuple[str, ...]
    tone: Tone | None
    rank: int

    @property
    def text(self) -> str:
        """The whole text without the label."""
        return "".join(self.parts)


class ServerDocument(Struct, frozen=True, kw_only=True):
    """The document of one server.

    time: of the document; read_at, age: time and age of the last successful reading, on which all figures are based.
    error: why the last attempt failed. verdict: one sentence. kind: null before the first reading. window, flow,
    headroom, balance: null before there are figures (two readings, a second apart), and for an emperor or a router,
    which have sections of their own. findings: worst first. thunder_lock: whether it is on. cpu, waits: null if the
    kernel does not report them; `unknown` says why. events: the latest, newest first; the journal has all.
    response_times: null without completed requests, or with stats-no-cores. queue_waits: how long requests waited in a
    listen queue, in the same form; null if none was seen waiting in the window, or with stats-no-cores. objective: null
    if none is configured.
    routes: most busy threads first; null while they are off. kept_history: null without a history file. what_if: only
    in the output of `check` with a what-if; the API has a path of its own. code: null while it is off. deploy: what the
    last reload or restart changed; null if the exporter saw none. lines: what `check`, `top` and the page say in words,
    in their order; empty in lists, and from exporters of earlier versions. silent_since: when the stats last answered
    (epoch seconds), while the kernel's figures stand for them.
    """

    name: str
    address: str
    path: str
    time: float
    state: State
    error: Error | None = None
    read_at: float | None = None
    age: float | None = None
    kind: Kind | None = None
    version: str | None = None
    status: Status
    verdict: str
    source: Literal["stats", "kernel"] = "stats"
    silent_since: float | None = None
    window: WindowSection | None = None
    windows: tuple[Covered, ...]
    headroom: Headroom | None = None
    flow: Flow | None = None
    threads: Threads | None = None
    occupancy: Occupancy | None = None
    balance: Balance | None = None
    workers: tuple[WorkerSection, ...] = ()
    sockets: tuple[Socket, ...] = ()
    host: HostSection | None = None
    setup: SetupSection | None = None
    thunder_lock: bool | None = None
    findings: tuple[FindingSection, ...]
    unknown: tuple[Unknown, ...] = ()
    sampling: Sampling
    emperor: Emperor | None = None
    router: Router | None = None
    cpu: CpuShares | None = None
    identity: Identity | None = None
    events: tuple[Event, ...] = ()
    waits: WaitFigures | None = None
    response_times: ResponseTimes | None = None
    queue_waits: ResponseTimes | None = None
    objective: Objective | None = None
    routes: tuple[Route, ...] | None = None
    kept_history: KeptHistory | None = None
    what_if: WhatIf | None = None
    code: Code | None = None
    deploy: Deploy | None = None
    lines: tuple[TextLine, ...] = ()


class JournalDocument(Struct, frozen=True, kw_only=True):
    """The events of one server, newest first, kept as long as its history. since: start of the requested range in epoch
    seconds. next: the parameter `before` of the request for the following events, null if there are none."""

    name: str
    time: float
    since: float
    events: tuple[Event, ...]
    next: str | None


class Summary(Struct, frozen=True, kw_only=True):
    """A server in the list of servers. path: of its document. headroom: the factor; first, far, is_upper_bound: as in
    its headroom; queue_wait, wait_is_floor, waiting: as in its flow; PID, emperor_pid: as in its identity. p95: the
    95th percentile of its response times, null if it is not known. threads: the mean of those available over the
    window, of which `observed` are in use; available: those of now. act: the first thing to do, without a full stop;
    empty if there is nothing; of_host: whether what it lacks is the host's, so that no setting of its uWSGI helps."""

    name: str
    address: str
    path: str
    state: State
    error: Error | None = None
    age: float | None = None
    kind: Kind | None = None
    version: str | None = None
    status: Status
    verdict: str
    headroom: float | None = None
    first: Limit | None = None
    throughput: float | None = None
    response_time: float | None = None
    observed: float | None = None
    available: int | None = None
    far: tuple[Limit, ...] = ()
    is_upper_bound: bool = False
    queue_wait: float | None = None
    waiting: Waiting | None = None
    pid: int | None = None
    emperor_pid: int | None = None
    p95: Percentile | None = None
    threads: float | None = None
    act: str = ""
    of_host: bool = False
    wait_is_floor: bool = False


class Servers(Struct, frozen=True, kw_only=True):
    """Every server: those that are down first, then those with a problem that their own settings can solve, then those
    that only lack what their host lacks, then the others; within each, the worst and the least headroom first. version:
    of the exporter; patterns: those of its configuration; host: if the CPUs of the host are full and at least two
    servers can use all of them, who uses them and what to do; else null. not_watched: the uWSGIs of its machine that it
    found and does not watch."""

    time: float
    version: str
    servers: tuple[Summary, ...]
    patterns: tuple[Pattern, ...] = ()
    host: str | None = None
    not_watched: tuple[NotWatched, ...] = ()


class Findings(Struct, frozen=True, kw_only=True):
    """The findings about one server, worst first."""

    name: str
    time: float
    state: State
    status: Status
    verdict: str
    findings: tuple[FindingSection, ...]


class Problem(Struct, frozen=True, kw_only=True):
    """The reason why a request failed: a sentence that says what is expected."""

    error: str
