"""uWSGI's other stats servers: emperors with their vassals (`emperor-stats`), and routers with their backends."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import Table, counter, gauge, name_apart, summed, tabulate_families
from uwsgi_headroom.metrics.scrape import Scrape, labels_of
from uwsgi_headroom.stats.emperor_router import Node, Vassal, is_set

_VASSAL: Table[Vassal] = (
    ("uwsgi_vassal_ready", "Whether the vassal has started.", lambda vassal: is_set(vassal.ready)),
    ("uwsgi_vassal_accepting", "Whether the vassal accepts requests.", lambda vassal: is_set(vassal.accepting)),
    (
        "uwsgi_vassal_loyal",
        "Whether the vassal has served a request, which makes it loyal.",
        lambda vassal: is_set(vassal.loyal),
    ),
    ("uwsgi_vassal_cursed", "Whether the emperor is ending the vassal.", lambda vassal: is_set(vassal.cursed)),
    ("uwsgi_vassal_respawns_total", "Respawns of the vassal.", lambda vassal: vassal.respawns),
    (
        "uwsgi_vassal_last_heartbeat_time_seconds",
        "Time of the vassal's last heartbeat, in epoch seconds; absent before the first.",
        lambda vassal: vassal.last_heartbeat or None,
    ),
)


def emperor_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of emperors and their vassals."""
    vassals = [
        (labels_of(observation, vassal=name), vassal)
        for observation, emperor in scrape.emperors
        for name, vassal in name_apart(emperor.vassals, lambda vassal: vassal.name)
    ]
    yield gauge(
        "uwsgi_emperor_vassals",
        "Vassals the emperor runs.",
        [(labels_of(observation), len(emperor.vassals)) for observation, emperor in scrape.emperors],
    )
    yield gauge(
        "uwsgi_emperor_blacklisted_vassals",
        "Vassals the emperor throttles because they failed to start.",
        [(labels_of(observation), len(emperor.blacklist)) for observation, emperor in scrape.emperors],
    )
    yield from tabulate_families(_VASSAL, vassals)


_NODE: Table[Node] = (
    ("uwsgi_router_node_requests_total", "Requests sent to the backend.", lambda node: node.requests),
    ("uwsgi_router_node_transmitted_bytes_total", "Bytes sent to the backend.", lambda node: node.tx),
    ("uwsgi_router_node_received_bytes_total", "Bytes received from the backend.", lambda node: node.rx),
    ("uwsgi_router_node_load", "Load the backend reports.", lambda node: node.load),
    ("uwsgi_router_node_weight", "Weight of the backend.", lambda node: node.weight),
    ("uwsgi_router_node_failures_total", "Failed attempts to reach the backend.", lambda node: node.failures),
    ("uwsgi_router_node_dead", "Whether the router has marked the backend as dead.", lambda node: node.death_mark),
)


def router_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of routers (http, fastrouter, rawrouter, sslrouter) and their backends."""
    keys = [
        (observation, name, key)
        for observation, router in scrape.routers
        for name, key in name_apart(router.subscriptions, lambda key: key.key)
    ]
    nodes = [
        (labels_of(observation, key=name, node=node_name), node)
        for observation, name, key in keys
        for node_name, node in name_apart(key.nodes, lambda node: node.name)
    ]
    yield gauge(
        "uwsgi_router_active_sessions",
        "Connections that the router is serving.",
        [(labels_of(observation), router.active_sessions) for observation, router in scrape.routers],
    )
    yield counter(
        "uwsgi_router_subscription_hits_total",
        "Requests for a subscribed key.",
        [(labels_of(observation, key=name), key.hits) for observation, name, key in keys],
    )
    yield from tabulate_families(_NODE, nodes)
    yield counter(
        "uwsgi_router_static_node_hits_total",
        "Requests sent to a backend named in the router's configuration.",
        summed(
            (labels_of(observation, node=node.name), node.hits)
            for observation, router in scrape.routers
            for node in router.static_nodes
        ),
    )
