"""Spoolers, which process queued tasks. Several processes of one directory (`spooler-processes`) are one spooler."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, gauge, summed
from uwsgi_headroom.metrics.scrape import Scrape, labels_of


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every spooler of the scrape."""
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
        "uwsgi_spooler_running",
        "Processes of the spooler that are processing a task.",
        summed((labels, spooler.running) for labels, spooler in spoolers),
    )
