"""The parts of uWSGI beside a server's workers: caches, spoolers, crons, legions, locks and custom metrics, and its
other stats servers, an emperor's and a router's.

Each is absent from servers without it.
"""

from __future__ import annotations

from operator import itemgetter

from uwsgi_headroom.metrics.family import (
    ObservedServer,
    Rows,
    Scrape,
    Subjects,
    add_up,
    each_found,
    each_part,
    each_reading,
    each_server,
    each_with,
    label_set,
    name_apart,
)
from uwsgi_headroom.stats import COUNTER, Cache, Cron, Legion
from uwsgi_headroom.stats.raw import EmperorSnapshot, ListedVassal, RouterNode, RouterSnapshot, Subscribed, is_set

each_cache = each_part(each_server, "name", lambda server: name_apart(server.snapshot.caches, lambda cache: cache.name))

CACHE: Rows[Cache] = {
    "uwsgi_cache_hits_total": ("Lookups that found an item.", lambda cache: cache.hits),
    "uwsgi_cache_misses_total": ("Lookups that found no item.", lambda cache: cache.misses),
    "uwsgi_cache_full_total": ("Items rejected because the cache was full.", lambda cache: cache.full),
    "uwsgi_cache_items": ("Items in the cache.", lambda cache: cache.items),
    "uwsgi_cache_max_items": ("Items the cache can hold.", lambda cache: cache.max_items),
}

each_with_spoolers = each_with(lambda server: server.snapshot.spoolers or server.record.spoolers)

SPOOLER: Rows[ObservedServer] = {
    "uwsgi_spooler_tasks_total{spooler}": (
        "Tasks processed.",
        lambda server: add_up(server.snapshot.spoolers, lambda each: each.directory, lambda each: each.tasks),
    ),
    "uwsgi_spooler_respawns_total{spooler}": (
        "Respawns of the spooler's processes.",
        lambda server: add_up(server.snapshot.spoolers, lambda each: each.directory, lambda each: each.respawns),
    ),
    "uwsgi_spooler_queue_length{spooler}": (
        "Tasks in the spooler's directory that are due, at most 5,000; counted every ten seconds. Absent if the "
        "exporter may not list the directory.",
        lambda server: {each.directory: each.tasks for each in server.record.spoolers},
    ),
    "uwsgi_spooler_running{spooler}": (
        "Processes of the spooler that are processing a task.",
        lambda server: add_up(server.snapshot.spoolers, lambda each: each.directory, lambda each: each.running),
    ),
}
"""Several processes of one directory (`spooler-processes`) are one spooler."""


def each_cron(scrape: Scrape) -> Subjects[Cron]:
    """The crons by position and schedule, because a command may contain a secret."""
    return [
        (label_set(**labels, cron=str(place), schedule=crontab_schedule(cron)), cron)
        for labels, server in scrape.servers
        for place, cron in enumerate(server.snapshot.crons, 1)
    ]


def crontab_schedule(cron: Cron) -> str:
    """Write a schedule as in crontab(5): uWSGI's -1 becomes `*`, its -N becomes `*/N`."""
    fields = (cron.minute, cron.hour, cron.day, cron.month, cron.week)
    return " ".join(str(field) if field >= 0 else "*" if field == -1 else f"*/{-field}" for field in fields)


CRON: Rows[Cron] = {
    "uwsgi_cron_running": ("Whether the command is running.", lambda cron: cron.pid > 0),
    "uwsgi_cron_start_time_seconds": (
        "Start time of the running command, in epoch seconds; absent while the command is not running.",
        lambda cron: cron.started_at or None,
    ),
}

each_legion = each_part(
    each_server, "legion", lambda server: name_apart(server.snapshot.legions, lambda legion: legion.name)
)

LEGION: Rows[Legion] = {
    "uwsgi_legion_lord": (
        "Whether this node is the lord.",
        lambda legion: None if legion.lord_since is None else legion.lord_since > 0,
    ),
    "uwsgi_legion_valor": ("This node's valor.", lambda legion: legion.valor),
    "uwsgi_legion_quorum": ("Votes needed to elect a lord.", lambda legion: legion.quorum),
    "uwsgi_legion_members": ("Other nodes that this node knows.", lambda legion: len(legion.members)),
}

each_with_locks = each_with(lambda server: server.snapshot.source == "stats" and server.snapshot.locks)

LOCK: Rows[ObservedServer] = {
    "uwsgi_lock_held{lock}": (
        "Whether a process held the lock at the moment of the read. The process that holds the lock `thunder` is "
        "waiting for a connection.",
        lambda server: {
            name: lock[1] > 0 for name, lock in name_apart([*(server.snapshot.locks or {}).items()], itemgetter(0))
        },
    ),
}

each_with_custom_metrics = each_with(lambda server: server.snapshot.custom_metrics)

CUSTOM: Rows[ObservedServer] = {
    "uwsgi_custom_total{name}": (
        "A counter that was added to uWSGI's metrics subsystem.",
        lambda server: {
            name: metric.value
            for name, (_, metric) in name_apart([*server.snapshot.custom_metrics.items()], itemgetter(0))
            if metric.kind == COUNTER and (metric.value or 0) >= 0  # a counter is never negative
        },
    ),
    "uwsgi_custom_value{name}": (
        "A gauge (or absolute value) that was added to uWSGI's metrics subsystem.",
        lambda server: {
            name: metric.value
            for name, (_, metric) in name_apart([*server.snapshot.custom_metrics.items()], itemgetter(0))
            if metric.kind != COUNTER
        },
    ),
}
"""What an application or an operator defined. uWSGI's own metrics of workers, sockets and totals are left out: other
modules export these better, and `core.overloaded` also counts reads of the stats."""


each_emperor = each_found(
    each_reading, lambda each: each.snapshot if isinstance(each.snapshot, EmperorSnapshot) else None
)

EMPEROR: Rows[EmperorSnapshot] = {
    "uwsgi_emperor_vassals": ("Vassals the emperor runs.", lambda emperor: len(emperor.vassals)),
    "uwsgi_emperor_blacklisted_vassals": (
        "Vassals the emperor throttles because they failed to start.",
        lambda emperor: len(emperor.blacklist),
    ),
}


each_vassal = each_part(each_emperor, "vassal", lambda emperor: name_apart(emperor.vassals, lambda each: each.name))

VASSAL: Rows[ListedVassal] = {
    "uwsgi_vassal_ready": ("Whether the vassal has started.", lambda vassal: is_set(vassal.ready)),
    "uwsgi_vassal_accepting": ("Whether the vassal accepts requests.", lambda vassal: is_set(vassal.accepting)),
    "uwsgi_vassal_loyal": (
        "Whether the vassal has served a request, which makes it loyal.",
        lambda vassal: is_set(vassal.loyal),
    ),
    "uwsgi_vassal_cursed": ("Whether the emperor is ending the vassal.", lambda vassal: is_set(vassal.cursed)),
    "uwsgi_vassal_respawns_total": ("Respawns of the vassal.", lambda vassal: vassal.respawns),
    "uwsgi_vassal_last_heartbeat_time_seconds": (
        "Time of the vassal's last heartbeat, in epoch seconds; absent before the first.",
        lambda vassal: vassal.last_heartbeat or None,
    ),
}


each_router = each_found(
    each_reading, lambda each: each.snapshot if isinstance(each.snapshot, RouterSnapshot) else None
)

ROUTER: Rows[RouterSnapshot] = {
    "uwsgi_router_active_sessions": ("Connections that the router is serving.", lambda router: router.active_sessions),
    "uwsgi_router_static_node_hits_total{node}": (
        "Requests sent to a backend named in the router's configuration.",
        lambda router: add_up(router.static_nodes, lambda node: node.name, lambda node: node.hits),
    ),
}


each_key = each_part(each_router, "key", lambda router: name_apart(router.subscriptions, lambda key: key.key))

KEY: Rows[Subscribed] = {
    "uwsgi_router_subscription_hits_total": ("Requests for a subscribed key.", lambda key: key.hits),
}


each_node = each_part(each_key, "node", lambda key: name_apart(key.nodes, lambda node: node.name))

NODE: Rows[RouterNode] = {
    "uwsgi_router_node_requests_total": ("Requests sent to the backend.", lambda node: node.requests),
    "uwsgi_router_node_transmitted_bytes_total": ("Bytes sent to the backend.", lambda node: node.tx),
    "uwsgi_router_node_received_bytes_total": ("Bytes received from the backend.", lambda node: node.rx),
    "uwsgi_router_node_load": ("Load the backend reports.", lambda node: node.load),
    "uwsgi_router_node_weight": ("Weight of the backend.", lambda node: node.weight),
    "uwsgi_router_node_failures_total": ("Failed attempts to reach the backend.", lambda node: node.failures),
    "uwsgi_router_node_dead": ("Whether the router has marked the backend as dead.", lambda node: node.death_mark),
}
