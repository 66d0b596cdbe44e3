"""uWSGI's stats documents as written: its key names, its units, every key optional.

Only used keys have a field; msgspec skips the others without building their values. Parts
that need no conversion have this project's names, and `field(name=...)` gives uWSGI's key where it differs: the decoder
builds what the program uses. uWSGI omits the parts that its configuration does not use.

Source: `uwsgi_master_generate_stats` (core/master_utils.c), `emperor_send_stats` (core/emperor.c) and
`corerouter_send_stats` (plugins/corerouter/corerouter.c) of uWSGI 2.0.18 to 2.0.31.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar

from msgspec import Meta, Raw, Struct, field
from msgspec.json import Decoder
from msgspec.structs import force_setattr

from uwsgi_headroom.stats.bounds import (
    MOST,
    NAME_CHARACTERS,
    PATH_CHARACTERS,
    Count,
    Whole,
    begin_part,
    count_part,
    cut,
    hide_negatives,
    note_cut,
    too_many,
)


class App(Struct, frozen=True, gc=False):
    """An application loaded in one worker. `requests` counts at the *start* of a request; with lazy-apps it falls to
    0 when the worker respawns."""

    app_id: Whole = field(default=0, name="id")
    mountpoint: str = ""
    startup_seconds: Count | None = field(default=None, name="startup_time")
    requests: Count | None = None
    exceptions: Count | None = None

    def __post_init__(self) -> None:
        count_part("applications of one worker")
        cut(self, "mountpoint")
        count_part("applications")


class Cache(Struct, frozen=True, gc=False):
    """A uWSGI cache. Sizes are in items; `full` counts refused insertions."""

    name: str = ""
    hits: Count | None = None
    misses: Count | None = field(default=None, name="miss")
    full: Count | None = None
    items: Count | None = None
    max_items: Count | None = None

    def __post_init__(self) -> None:
        count_part("caches")
        cut(self, "name")


class Spooler(Struct, frozen=True, gc=False):
    """A spooler process. `running` is 1 while it works on a task."""

    directory: str = field(default="", name="dir")
    tasks: Count | None = None
    respawns: Count | None = None
    running: Whole | None = None
    pid: Whole | None = None

    def __post_init__(self) -> None:
        count_part("spoolers")
        cut(self, "directory", PATH_CHARACTERS)
        hide_negatives(self, "running")


class Cron(Struct, frozen=True, gc=False):
    """A cron line. The schedule's fields are as in crontab, with -1 for any and -N for every N. While the command
    runs, `pid` is its process and `started_at` its start in epoch seconds; otherwise they are -1 and 0."""

    minute: Whole = -1
    hour: Whole = -1
    day: Whole = -1
    month: Whole = -1
    week: Whole = -1
    command: str = ""
    pid: Whole = -1
    started_at: Whole = 0

    def __post_init__(self) -> None:
        count_part("crons")
        cut(self, "command", PATH_CHARACTERS)
        if self.started_at < 0:
            force_setattr(self, "started_at", 0)


class LegionMember(Struct, frozen=True, gc=False):
    """Another node of a legion: they are only counted."""

    def __post_init__(self) -> None:
        count_part("members of legions")


class Legion(Struct, frozen=True):
    """A legion that this instance is a member of. `lord_since` is the epoch second when it became the lord, 0 if it
    is not the lord; `members` are the others."""

    name: str = field(default="", name="legion")
    valor: Whole | None = None
    quorum: Whole | None = None
    lord_since: Whole | None = field(default=None, name="i_am_the_lord")
    members: tuple[LegionMember, ...] = ()

    def __post_init__(self) -> None:
        count_part("legions")
        cut(self, "name")
        hide_negatives(self, "valor", "quorum", "lord_since")


COUNTER = 0
"""The `kind` of a custom metric that is a counter."""

_match_built_in = re.compile(r"(core|worker\.\d+|socket\.\d+)\.|(rss|vsz)_size$").match


class CustomMetric(Struct, frozen=True, gc=False):
    """`kind` is 0 for a counter, 1 for a gauge, 2 for absolute, 3 for an alias."""

    kind: Whole = field(default=1, name="type")
    value: Whole | None = None


_decoder = Decoder(CustomMetric)


def decode_custom_metrics(metrics: dict[str, Raw]) -> dict[str, CustomMetric]:
    """The custom metrics of a document, by name: those that an application or an operator has defined.

    uWSGI adds metrics of its own for every worker and thread, tens of thousands on a large server. They only repeat
    what the rest of the document says, so they are not decoded.

    Those whose names are too long are left out. Raises StatsError (`too_large`) if the document has more metrics than
    the bounds allow.
    """
    if len(metrics) > MOST["metrics"]:
        raise too_many("metrics")
    custom = [name for name in metrics if not _match_built_in(name)]
    if len(custom) > MOST["custom metrics"]:
        raise too_many("custom metrics")
    for name in [name for name in custom if len(name) > NAME_CHARACTERS]:
        custom.remove(name)
        note_cut()
    return {name: _decoder.decode(metrics[name]) for name in custom}


class ListedVassal(Struct, frozen=True, gc=False):
    """An instance that an emperor runs. Times are in epoch seconds, 0 for never. on_demand: where the emperor listens
    for the request that starts it."""

    name: str = field(default="", name="id")
    pid: Whole = 0
    on_demand: str = ""
    born: Whole | None = None
    last_heartbeat: Whole | None = None
    loyal: Whole | None = None
    ready: Whole | None = None
    accepting: Whole | None = None
    cursed: Whole | None = None
    respawns: Whole | None = None

    def __post_init__(self) -> None:
        count_part("vassals")
        cut(self, "name")
        cut(self, "on_demand")
        hide_negatives(self, "born", "last_heartbeat", "loyal", "ready", "accepting", "cursed", "respawns")


class Blacklisted(Struct, frozen=True, gc=False):
    """A vassal that the emperor throttles after failed starts. `throttle_level` is in milliseconds."""

    name: str = field(default="", name="id")
    throttle_level: Whole | None = None
    attempt: Whole | None = None

    def __post_init__(self) -> None:
        count_part("blacklisted vassals")
        cut(self, "name")
        hide_negatives(self, "throttle_level", "attempt")


class EmperorSnapshot(Struct, frozen=True):
    """The document of an emperor: its vassals."""

    kind: ClassVar[str] = "emperor"

    version: str
    pid: Whole
    vassals: tuple[ListedVassal, ...]
    blacklist: tuple[Blacklisted, ...]


class RouterNode(Struct, frozen=True, gc=False):
    """A backend that subscribed to a router. `tx` and `rx` are in bytes."""

    name: str = ""
    requests: Whole | None = None
    tx: Whole | None = None
    rx: Whole | None = None
    load: Whole | None = None
    weight: Whole | None = None
    failures: Whole | None = field(default=None, name="failcnt")
    death_mark: Whole | None = None

    def __post_init__(self) -> None:
        count_part("nodes")
        cut(self, "name")
        hide_negatives(self, "requests", "tx", "rx", "load", "weight", "failures", "death_mark")


class Subscribed(Struct, frozen=True):
    """A key (usually a host name) and the backends behind it."""

    key: str = ""
    hits: Whole | None = None
    nodes: tuple[RouterNode, ...] = ()

    def __post_init__(self) -> None:
        count_part("subscriptions")
        cut(self, "key")
        hide_negatives(self, "hits")


class ConfiguredNode(Struct, frozen=True, gc=False):
    """A backend named in the router's configuration."""

    name: str = ""
    hits: Whole | None = None
    grace: Whole | None = None
    """Set while the router passes nothing to it, after a failure."""

    def __post_init__(self) -> None:
        count_part("static nodes")
        cut(self, "name")
        hide_negatives(self, "hits")


class RouterSnapshot(Struct, frozen=True):
    """The document of an http, fastrouter, rawrouter or sslrouter process."""

    kind: ClassVar[str] = "router"

    version: str
    pid: Whole
    active_sessions: Whole
    subscriptions: tuple[Subscribed, ...]
    static_nodes: tuple[ConfiguredNode, ...]
    takes_subscriptions: bool = False

    @property
    def lacks_nodes(self) -> bool:
        """Whether it has nobody to pass requests to, as far as it lists its nodes."""
        failing = [is_set(node.death_mark) for each in self.subscriptions for node in each.nodes]
        failing += [is_set(node.grace) for node in self.static_nodes]
        return all(failing) and bool(failing or self.takes_subscriptions)


def is_set(flag: int | None) -> bool | None:
    """Whether a flag is set. uWSGI writes a set flag as 1, or as the epoch second when it was set. None stays None."""
    return None if flag is None else flag > 0


# If the wall clock is set back during a request, running_time wraps around 2**64; such a value is unknown, not an
# error. A float holds microseconds exactly for 285 years, and does not take quadratic time to parse 4,299 digits.
Wrapping = Annotated[float, Meta(ge=0)]


class RequestInfo(Struct, frozen=True, gc=False):
    request_start: Whole | None = None


class Core(Struct, frozen=True, gc=False):
    requests: Count = 0
    static_requests: Count = 0
    routed_requests: Count = 0
    offloaded_requests: Count = 0
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
    status: str = ""
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
    name: str = ""
    proto: str = ""
    queue: Count | None = None
    max_queue: Count | None = None

    def __post_init__(self) -> None:
        count_part("sockets")
        cut(self, "name")
        cut(self, "proto")


class RawDocument(Struct, frozen=True):
    """A document of any of the three kinds. Each kind has keys that the others lack."""

    version: str | None = None
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
    vassals: tuple[ListedVassal, ...] | None = None
    blacklist: tuple[Blacklisted, ...] = ()
    # a router
    active_sessions: Count | None = None
    subscriptions: tuple[Subscribed, ...] | None = None
    static_nodes: tuple[ConfiguredNode, ...] = ()

    def __post_init__(self) -> None:
        if self.version is not None:
            cut(self, "version")


class DocumentWithVariables(RawDocument, frozen=True):
    """A document that is decoded for routes."""

    workers: list[WorkerWithVariables] | None = None  # type: ignore[assignment]  # as above
