"""Builds metric families from readings. Each module exports one subject.

The order of `MODULES` is the order in the output. To find a metric, search for its name, which is a literal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics import (
    application,
    emperor_router,
    exporter,
    host,
    response_times,
    sampled_totals,
    server,
    socket,
    subsystems,
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
    host.families,
    socket.families,
    sampled_totals.families,
    waits.families,
    window_figures.families,
    response_times.families,
    application.families,
    subsystems.families,
    emperor_router.families,
    exporter.families,
)


def families(observations: Sequence[Observation], health: ExporterHealth = WELL) -> Iterator[Metric]:
    """Build every family from the observations of all servers. A family may have no samples."""
    scrape = group_by_kind(observations, health)
    for module in MODULES:
        yield from module(scrape)
