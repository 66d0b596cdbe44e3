"""The parts of a uWSGI server beside its workers: caches, spoolers, crons, legions, locks and custom metrics.

Each is absent from servers without it.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import Table, counter, gauge, name_apart, summed, tabulate_families
from uwsgi_headroom.metrics.scrape import Scrape, labels_of
from uwsgi_headroom.stats import COUNTER, Cache, Cron, Legion

_CACHE: Table[Cache] = (
    ("uwsgi_cache_hits_total", "Lookups that found an item.", lambda cache: cache.hits),
    ("uwsgi_cache_misses_total", "Lookups that found no item.", lambda cache: cache.misses),
    ("uwsgi_cache_full_total", "Items rejected because the cache was full.", lambda cache: cache.full),
    ("uwsgi_cache_items", "Items in the cache.", lambda cache: cache.items),
    ("uwsgi_cache_max_items", "Items the cache can hold.", lambda cache: cache.max_items),
)


def cache_families(scrape: Scrape) -> Iterator[Metric]:
    """Build the families of caches."""
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
        "uwsgi_spooler_tasks_total",
        "Tasks processed.",
        summed((labels, spooler.tasks) for labels, spooler in spoolers),
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
        "Whether a process held the lock at the moment of the read. The holder of thunder waits for a connection.",
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
