"""Builds the sections of uWSGI's other stats servers: an emperor with its vassals, a router with its backends."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.stats.raw import EmperorSnapshot, RouterSnapshot, is_set
from uwsgi_headroom.stats.raw import ListedVassal as VassalStats


class Vassal(Struct, frozen=True, kw_only=True):
    """A uWSGI that an emperor runs. ready: its workers are started; loyal: it has served a request; cursed: the
    emperor is ending it. age: since its start; heartbeat_age: since its last heartbeat, null without any."""

    name: str
    pid: int
    ready: bool | None
    accepting: bool | None
    loyal: bool | None
    cursed: bool | None
    respawns: int | None
    age: float | None
    heartbeat_age: float | None


class Throttled(Struct, frozen=True, kw_only=True):
    """A vassal that the emperor throttles after failed starts. delay: seconds before the next attempt."""

    name: str
    delay: float | None
    attempts: int | None


class Emperor(Struct, frozen=True, kw_only=True):
    """The vassals that an emperor runs, and those that it throttles."""

    vassals: tuple[Vassal, ...]
    throttled: tuple[Throttled, ...]


class Node(Struct, frozen=True, kw_only=True):
    """A backend that subscribed to a router. Counts are since the subscription; dead: the router marked it as dead."""

    name: str
    requests: int | None
    transmitted_bytes: int | None
    received_bytes: int | None
    load: int | None
    weight: int | None
    failures: int | None
    dead: bool | None


class Subscription(Struct, frozen=True, kw_only=True):
    """A key (usually a host name), the requests for that key, and its backends."""

    key: str
    hits: int | None
    nodes: tuple[Node, ...]


class StaticNode(Struct, frozen=True, kw_only=True):
    """A backend named in the router's configuration, and the requests sent to it."""

    name: str
    hits: int | None


class Router(Struct, frozen=True, kw_only=True):
    """The stats of an http, fastrouter, rawrouter or sslrouter process. active_sessions: connections in service."""

    active_sessions: int
    subscriptions: tuple[Subscription, ...]
    static_nodes: tuple[StaticNode, ...]


def build_emperor(snapshot: EmperorSnapshot, time: float) -> Emperor:
    """Build an emperor's section. time: of the reading, in epoch seconds."""
    return Emperor(
        vassals=tuple(_build_vassal(vassal, time) for vassal in snapshot.vassals),
        throttled=tuple(
            Throttled(
                name=vassal.name,
                delay=None if vassal.throttle_level is None else vassal.throttle_level / 1000,
                attempts=vassal.attempt,
            )
            for vassal in snapshot.blacklist
        ),
    )


def _build_vassal(vassal: VassalStats, time: float) -> Vassal:
    return Vassal(
        name=vassal.name,
        pid=vassal.pid,
        ready=is_set(vassal.ready),
        accepting=is_set(vassal.accepting),
        loyal=is_set(vassal.loyal),
        cursed=is_set(vassal.cursed),
        respawns=vassal.respawns,
        age=_age(vassal.born, time),
        heartbeat_age=_age(vassal.last_heartbeat, time),
    )


def _age(since: int | None, time: float) -> float | None:
    return max(0.0, time - since) if since else None


def build_router(snapshot: RouterSnapshot) -> Router:
    """Build a router's section."""
    return Router(
        active_sessions=snapshot.active_sessions,
        subscriptions=tuple(
            Subscription(
                key=key.key,
                hits=key.hits,
                nodes=tuple(
                    copy_fields(
                        Node, node, transmitted_bytes=node.tx, received_bytes=node.rx, dead=is_set(node.death_mark)
                    )
                    for node in key.nodes
                ),
            )
            for key in snapshot.subscriptions
        ),
        static_nodes=msgspec.convert(snapshot.static_nodes, tuple[StaticNode, ...], from_attributes=True),
    )
