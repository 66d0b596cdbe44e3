"""Metrics an application or an operator defined in uWSGI's metrics subsystem.

What the subsystem repeats of workers, sockets and totals is left out: it is said better elsewhere, and
`core.overloaded` counts the reads of its stats.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, gauge
from uwsgi_headroom.metrics.scrape import Scrape, labels_of
from uwsgi_headroom.stats.custom_metrics import COUNTER


def families(scrape: Scrape) -> Iterator[Metric]:
    """Families of this module, for every custom metric of the scrape."""
    custom = [
        (labels_of(server.observation, name=name), metric)
        for server in scrape.servers
        for name, metric in server.snapshot.custom_metrics.items()
    ]
    yield counter(
        "uwsgi_custom_total",
        "A counter of uWSGI's metrics subsystem that is not one of its own.",
        [
            (labels, metric.value)
            for labels, metric in custom
            if metric.kind == COUNTER and (metric.value or 0) >= 0  # no counter is below zero
        ],
    )
    yield gauge(
        "uwsgi_custom_value",
        "A gauge (or absolute value) of uWSGI's metrics subsystem that is not one of its own.",
        [(labels, metric.value) for labels, metric in custom if metric.kind != COUNTER],
    )
