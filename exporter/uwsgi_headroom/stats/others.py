"""Documents of the other stats servers of uWSGI: the emperor's and those of its routers."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, field


class Vassal(Struct, frozen=True):
    """An instance that an emperor runs. Times in epoch seconds, 0 for never."""

    name: str = field(default="", name="id")
    pid: int = 0
    born: int | None = None
    last_heartbeat: int | None = None
    loyal: int | None = None
    ready: int | None = None
    accepting: int | None = None
    cursed: int | None = None
    respawns: int | None = None


class Blacklisted(Struct, frozen=True):
    """A vassal that the emperor throttles after failed starts. `throttle_level` in milliseconds."""

    name: str = field(default="", name="id")
    throttle_level: int | None = None
    attempt: int | None = None


class EmperorSnapshot(Struct, frozen=True):
    """What an emperor says of its vassals."""

    kind: ClassVar[str] = "emperor"

    version: str
    pid: int
    vassals: tuple[Vassal, ...]
    blacklist: tuple[Blacklisted, ...]


class Node(Struct, frozen=True):
    """A backend that subscribed to a router. `tx` and `rx` in bytes, `last_check` in epoch seconds."""

    name: str = ""
    requests: int | None = None
    tx: int | None = None
    rx: int | None = None
    load: int | None = None
    weight: int | None = None
    failures: int | None = field(default=None, name="failcnt")
    death_mark: int | None = None


class Subscription(Struct, frozen=True):
    """A key (a host name, as a rule) and the backends behind it."""

    key: str = ""
    hits: int | None = None
    nodes: tuple[Node, ...] = ()


class StaticNode(Struct, frozen=True):
    """A backend named in the router's configuration."""

    name: str = ""
    hits: int | None = None


class RouterSnapshot(Struct, frozen=True):
    """What an http, fastrouter, rawrouter or sslrouter process says."""

    kind: ClassVar[str] = "router"

    version: str
    pid: int
    active_sessions: int
    subscriptions: tuple[Subscription, ...]
    static_nodes: tuple[StaticNode, ...]
