"""The parts of uWSGI beside a server's workers: caches, spoolers, crons, legions, locks and custom metrics, and its
other stats servers, an emperor's and a router's.

Each is absent from servers without it.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import (
    Scrape,
    Table,
    counter,
    gauge,
    labels_of,
    name_apart,
    summed,
    tabulate_families,
)
from uwsgi_headroom.stats import COUNTER, Cache, Cron, Legion
from uwsgi_headroom.stats.raw import ListedVassal, RouterNode, is_set

_CACHE: Table[Cache] = (
    ("uwsgi_cache_hits_total", "Lookups that found an item.", lambda cache: cache.hits),
    ("uwsgi_cache_misses_total", "Lookups that found no item.", lambda cache: cache.misses),
    ("uwsgi_cache_full_total", "Items rejected because the cache was full.", lambda cache: cache.full),
    ("uwsgi_cache_items", "Items in the cache.", lambda cache: cache.items),
    ("uwsgi_cache_max_items", "Items the cache can hold.", lambda cache: cache.max_items),
)


def cache_families(scrape: Scrape) -> Iterator[Metric]:
    caches = [
        (labels_of(server.observation, name=name), cache)
        for server in scrape.servers
        for name, cache in name_apart(server.snapshot.caches, lambda cache: cache.name)
    ]
    yield from tabulate_families(_CACHE, caches)


def spooler_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of spoolers. Several processes of one directory (`spooler-processes`) are one spooler."""
    spoolers = [
        (labels_of(server.observation, spooler=spooler.directory), spooler)
        for server in scrape.servers
        for spooler in server.snapshot.spoolers
    ]
    yield counter(
        "uwsgi_spooler_tasks_total", "Tasks processed.", summed((labels, spooler.tasks) for labels, spooler in spoolers)
    )
    yield counter(
        "uwsgi_spooler_respawns_total",
        "Respawns of the spooler's processes.",
        summed((labels, spooler.respawns) for labels, spooler in spoolers),
    )
    yield gauge(
        "uwsgi_spooler_queue_length",
        "Tasks in the spooler's directory that are due, at most 5,000; counted every ten seconds. Absent if the "
        "exporter may not list the directory.",
        [
            (labels_of(server.observation, spooler=spooler.directory), spooler.tasks)
            for server in scrape.servers
            for spooler in server.record.spoolers
        ],
    )
    yield gauge(
        "uwsgi_spooler_running",
        "Processes of the spooler that are processing a task.",
        summed((labels, spooler.running) for labels, spooler in spoolers),
    )


_CRON: Table[Cron] = (
    ("uwsgi_cron_running", "Whether the command is running.", lambda cron: cron.pid > 0),
    (
        "uwsgi_cron_start_time_seconds",
        "Start time of the running command, in epoch seconds; absent while the command is not running.",
        lambda cron: cron.started_at or None,
    ),
)


def cron_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of crons. Position and schedule identify a cron, because its command may contain a secret."""
    crons = [
        (labels_of(server.observation, cron=str(place), schedule=crontab_schedule(cron)), cron)
        for server in scrape.servers
        for place, cron in enumerate(server.snapshot.crons, 1)
    ]
    yield from tabulate_families(_CRON, crons)


def crontab_schedule(cron: Cron) -> str:
    """Write a schedule as in crontab(5): uWSGI's -1 becomes `*`, its -N becomes `*/N`."""
    fields = (cron.minute, cron.hour, cron.day, cron.month, cron.week)
    return " ".join(str(field) if field >= 0 else "*" if field == -1 else f"*/{-field}" for field in fields)


_LEGION: Table[Legion] = (
    (
        "uwsgi_legion_lord",
        "Whether this node is the lord.",
        lambda legion: None if legion.lord_since is None else legion.lord_since > 0,
    ),
    ("uwsgi_legion_valor", "This node's valor.", lambda legion: legion.valor),
    ("uwsgi_legion_quorum", "Votes needed to elect a lord.", lambda legion: legion.quorum),
    ("uwsgi_legion_members", "Other nodes that this node knows.", lambda legion: len(legion.members)),
)


def legion_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of legions: which of several nodes is the lord."""
    legions = [
        (labels_of(server.observation, legion=name), legion)
        for server in scrape.servers
        for name, legion in name_apart(server.snapshot.legions, lambda legion: legion.name)
    ]
    yield from tabulate_families(_LEGION, legions)


def lock_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the family of uWSGI's locks between its processes."""
    yield gauge(
        "uwsgi_lock_held",
        "Whether a process held the lock at the moment of the read. The process that holds the lock `thunder` is "
        "waiting for a connection.",
        [
            (labels_of(server.observation, lock=name), pid > 0)
            for server in scrape.servers
            for name, pid in (server.snapshot.locks or {}).items()
        ],
    )


def custom_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of metrics that an application or an operator defined in uWSGI's metrics subsystem.

    The subsystem's own metrics of workers, sockets and totals are left out: other modules export these figures better,
    and `core.overloaded` also counts reads of the stats.
    """
    custom = [
        (labels_of(server.observation, name=name), metric)
        for server in scrape.servers
        for name, metric in server.snapshot.custom_metrics.items()
    ]
    yield counter(
        "uwsgi_custom_total",
        "A counter that was added to uWSGI's metrics subsystem.",
        [
            (labels, metric.value)
            for labels, metric in custom
            if metric.kind == COUNTER and (metric.value or 0) >= 0  # a counter is never negative
        ],
    )
    yield gauge(
        "uwsgi_custom_value",
        "A gauge (or absolute value) that was added to uWSGI's metrics subsystem.",
        [(labels, metric.value) for labels, metric in custom if metric.kind != COUNTER],
    )


_VASSAL: Table[ListedVassal] = (
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


_NODE: Table[RouterNode] = (
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
