"""Capacity: how many requests a server can serve at once, and how many it serves now."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.analysis.figures import count_ceiling
from uwsgi_headroom.analysis.worker_states import count_harmful_now
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.history.totals import sum_if_all_known
from uwsgi_headroom.metrics.family import gauge
from uwsgi_headroom.metrics.scrape import Scrape


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every server of the scrape; absent with stats-no-cores, which hides threads."""
    servers = scrape.servers
    yield gauge(
        "uwsgi_threads_configured",
        "Configured capacity: threads of all worker slots, including those that cheaper mode has not spawned.",
        [
            (server.labels, sum_if_all_known([worker.threads for worker in server.snapshot.workers]))
            for server in servers
        ],
    )
    yield gauge(
        "uwsgi_threads_available",
        "Available capacity: threads of workers that are up and accepting.",
        [
            (server.labels, sum_if_all_known([worker.available_threads for worker in server.snapshot.workers]))
            for server in servers
        ],
    )
    yield gauge(
        "uwsgi_threads_ceiling",
        "The most threads that can serve: those available plus those of workers that cheaper mode keeps in reserve.",
        [(server.labels, count_ceiling(server.record.workers)) for server in servers],
    )
    yield gauge(
        "uwsgi_threads_busy",
        "Threads serving a request at the moment of the read.",
        [
            (
                server.labels,
                sum_if_all_known([server.reading.busy_threads(worker) for worker in server.snapshot.workers]),
            )
            for server in servers
        ],
    )
    yield gauge(
        "uwsgi_threads_stuck",
        f"Threads whose request has been in service for longer than {STUCK_SECONDS:.0f} s, or what `stuck` is set to.",
        [
            (
                server.labels,
                count_harmful_now(server.record, server.observation.stuck_seconds),
            )
            for server in servers
            if sum_if_all_known([worker.threads for worker in server.snapshot.workers]) is not None
        ],
    )
