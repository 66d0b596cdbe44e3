"""Metrics that an application or an operator defined in uWSGI's metrics subsystem.

The subsystem's own metrics of workers, sockets and totals are left out: other modules export these figures better, and
`core.overloaded` also counts reads of the stats.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, gauge
from uwsgi_headroom.metrics.scrape import Scrape, labels_of
from uwsgi_headroom.stats import COUNTER


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every custom metric of the scrape."""
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
