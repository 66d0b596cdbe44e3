"""Defines the documents of uWSGI's other stats servers, an emperor's and a router's, and their parts."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field

from uwsgi_headroom.stats.bounds import Name, Whole, count_part, hide_negatives


class Vassal(Struct, frozen=True, gc=False):
    """An instance that an emperor runs. Times are in epoch seconds, 0 for never."""

    name: Name = field(default="", name="id")
    pid: Whole = 0
    born: Whole | None = None
    last_heartbeat: Whole | None = None
    loyal: Whole | None = None
    ready: Whole | None = None
    accepting: Whole | None = None
    cursed: Whole | None = None
    respawns: Whole | None = None

    def __post_init__(self) -> None:
        count_part("vassals")
        hide_negatives(self, "born", "last_heartbeat", "loyal", "ready", "accepting", "cursed", "respawns")


class Blacklisted(Struct, frozen=True, gc=False):
    """A vassal that the emperor throttles after failed starts. `throttle_level` is in milliseconds."""

    name: Name = field(default="", name="id")
    throttle_level: Whole | None = None
    attempt: Whole | None = None

    def __post_init__(self) -> None:
        count_part("blacklisted vassals")
        hide_negatives(self, "throttle_level", "attempt")


class EmperorSnapshot(Struct, frozen=True):
    """The document of an emperor: its vassals."""

    kind: ClassVar[str] = "emperor"

    version: str
    pid: Whole
    vassals: tuple[Vassal, ...]
    blacklist: tuple[Blacklisted, ...]


class Node(Struct, frozen=True, gc=False):
    """A backend that subscribed to a router. `tx` and `rx` are in bytes."""

    name: Name = ""
    requests: Whole | None = None
    tx: Whole | None = None
    rx: Whole | None = None
    load: Whole | None = None
    weight: Whole | None = None
    failures: Whole | None = field(default=None, name="failcnt")
    death_mark: Whole | None = None

    def __post_init__(self) -> None:
        count_part("nodes")
        hide_negatives(self, "requests", "tx", "rx", "load", "weight", "failures", "death_mark")


class Subscription(Struct, frozen=True):
    """A key (usually a host name) and the backends behind it."""

    key: Name = ""
    hits: Whole | None = None
    nodes: tuple[Node, ...] = ()

    def __post_init__(self) -> None:
        count_part("subscriptions")
        hide_negatives(self, "hits")


class StaticNode(Struct, frozen=True, gc=False):
    """A backend named in the router's configuration."""

    name: Name = ""
    hits: Whole | None = None

    def __post_init__(self) -> None:
        count_part("static nodes")
        hide_negatives(self, "hits")


class RouterSnapshot(Struct, frozen=True):
    """The document of an http, fastrouter, rawrouter or sslrouter process."""

    kind: ClassVar[str] = "router"

    version: str
    pid: Whole
    active_sessions: Whole
    subscriptions: tuple[Subscription, ...]
    static_nodes: tuple[StaticNode, ...]


def is_set(flag: int | None) -> bool | None:
    """Whether a flag is set. uWSGI writes a set flag as 1, or as the epoch second when it was set. None stays None."""
    return None if flag is None else flag > 0
