"""uWSGI's stats documents as written: its key names, its units, every key optional.

Only used keys have a field; msgspec skips the others without building their values.
Source: `uwsgi_master_generate_stats` (core/master_utils.c), `emperor_send_stats` (core/emperor.c) and
`corerouter_send_stats` (plugins/corerouter/corerouter.c) of uWSGI 2.0.18 to 2.0.31.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Raw, Struct, field

from uwsgi_headroom.stats.bounds import Count, Name, Whole, begin_part, count_part
from uwsgi_headroom.stats.parts import App, Blacklisted, Cache, Cron, Legion, Spooler, StaticNode, Subscription, Vassal

# If the wall clock is set back during a request, running_time wraps around 2**64; such a value is unknown, not an
# error. A float holds microseconds exactly for 285 years, and does not take quadratic time to parse 4,299 digits.
Wrapping = Annotated[float, Meta(ge=0)]


class RequestInfo(Struct, frozen=True, gc=False):
    request_start: Whole | None = None


class Core(Struct, frozen=True, gc=False):
    requests: Count = 0
    static_requests: Count = 0
    routed_requests: Count = 0
    write_errors: Count = 0
    read_errors: Count = 0
    in_request: Whole = 0
    req_info: RequestInfo | None = None

    def __post_init__(self) -> None:
        count_part("cores")


class RawWorker(Struct, frozen=True):
    pid: Whole = 0
    accepting: Whole | None = None
    requests: Count | None = None
    delta_requests: Count | None = None
    exceptions: Count | None = None
    harakiri_count: Count | None = None
    signals: Count | None = None
    status: Name = ""
    rss: Count | None = None
    running_time: Wrapping | None = None
    last_spawn: Count | None = None
    respawn_count: Count | None = None
    tx: Count | None = None
    apps: tuple[App, ...] = ()
    cores: list[Core] | None = None

    def __post_init__(self) -> None:
        count_part("workers")
        begin_part("applications of one worker")


class CoreWithVariables(Core, frozen=True, gc=False):
    """A thread, and the variables of its request as bytes of the document."""

    variables: Raw = field(default=Raw(b""), name="vars")


class WorkerWithVariables(RawWorker, frozen=True):
    """A worker whose threads have the variables of their requests."""

    cores: list[CoreWithVariables] | None = None  # type: ignore[assignment]  # a list of a narrower type, only read


class RawSocket(Struct, frozen=True, gc=False):
    name: Name = ""
    queue: Count | None = None
    max_queue: Count | None = None

    def __post_init__(self) -> None:
        count_part("sockets")


class Document(Struct, frozen=True):
    """A document of any of the three kinds. Each kind has keys that the others lack."""

    version: Name | None = None
    pid: Whole = 0
    # a server
    workers: list[RawWorker] | None = None
    listen_queue: Count | None = None
    signal_queue: Whole | None = None
    sockets: list[RawSocket] = []
    locks: Raw = Raw(b"null")  # decoded after its length is checked
    caches: tuple[Cache, ...] = ()
    spoolers: tuple[Spooler, ...] = ()
    crons: tuple[Cron, ...] = ()
    legions: tuple[Legion, ...] = ()
    metrics: dict[str, Raw] = {}  # custom metrics are decoded later, by name
    # an emperor
    vassals: tuple[Vassal, ...] | None = None
    blacklist: tuple[Blacklisted, ...] = ()
    # a router
    active_sessions: Count | None = None
    subscriptions: tuple[Subscription, ...] = ()
    static_nodes: tuple[StaticNode, ...] = ()


class DocumentWithVariables(Document, frozen=True):
    """A document that is decoded for routes."""

    workers: list[WorkerWithVariables] | None = None  # type: ignore[assignment]  # as above
