"""Builds metric families from readings, with one module per subject. The order here is the order in the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics import (
    application,
    cache,
    cpu_affinity,
    cron,
    custom,
    emperor,
    exporter,
    legion,
    lock,
    memory,
    process,
    response_times,
    router,
    routes,
    sampled_totals,
    server,
    socket,
    spooler,
    threads,
    waits,
    window_figures,
    worker,
)
from uwsgi_headroom.metrics.scrape import Scrape, group_by_kind
from uwsgi_headroom.watch.observation import WELL, ExporterHealth, Observation

MODULES: tuple[Callable[[Scrape], Iterator[Metric]], ...] = (
    server.families,
    threads.families,
    worker.families,
    process.families,
    memory.families,
    cpu_affinity.families,
    socket.families,
    sampled_totals.families,
    waits.families,
    routes.families,
    window_figures.families,
    response_times.families,
    application.families,
    cache.families,
    spooler.families,
    cron.families,
    legion.families,
    lock.families,
    custom.families,
    emperor.families,
    router.families,
    exporter.families,
)


def families(observations: Sequence[Observation], health: ExporterHealth = WELL) -> Iterator[Metric]:
    """Build every family from the observations of all servers. A family may have no samples."""
    scrape = group_by_kind(observations, health)
    for module in MODULES:
        yield from module(scrape)
