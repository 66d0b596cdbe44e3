"""Readings to metric families. One module a subject; the order here is the order on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics import (
    affinity,
    app,
    cache,
    capacity,
    cron,
    custom,
    emperor,
    exporter,
    integrals,
    legion,
    lock,
    process,
    router,
    server,
    socket,
    spooler,
    window,
    worker,
)
from uwsgi_headroom.metrics.subject import Scrape, Subject, scrape

MODULES: tuple[Callable[[Scrape], Iterator[Metric]], ...] = (
    server.families,
    capacity.families,
    worker.families,
    process.families,
    affinity.families,
    socket.families,
    integrals.families,
    window.families,
    app.families,
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


def families(subjects: list[Subject]) -> Iterator[Metric]:
    """Every family, from what came of reading each server. A family may have no samples."""
    seen = scrape(subjects)
    for module in MODULES:
        yield from module(seen)
