"""Spooler processes, which work off queued tasks."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, gauge
from uwsgi_headroom.metrics.subject import Scrape


def families(scrape: Scrape) -> Iterator[Metric]:
    """Families of this module, for every spooler of the scrape."""
    spoolers = [
        (server.subject.labels(spooler=spooler.directory), spooler)
        for server in scrape.servers
        for spooler in server.snapshot.spoolers
    ]
    yield counter(
        "uwsgi_spooler_tasks_total",
        "Tasks the spooler has worked on.",
        [(labels, it.tasks) for labels, it in spoolers],
    )
    yield counter(
        "uwsgi_spooler_respawns_total",
        "Respawns of the spooler process.",
        [(labels, it.respawns) for labels, it in spoolers],
    )
    yield gauge(
        "uwsgi_spooler_running",
        "Whether the spooler is working on a task.",
        [(labels, it.running) for labels, it in spoolers],
    )
