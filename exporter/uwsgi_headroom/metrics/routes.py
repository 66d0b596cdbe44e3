"""Which routes hold the busy threads, from samples; opt-in."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, label_set
from uwsgi_headroom.metrics.scrape import Scrape


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every server of the scrape."""
    yield counter(
        "uwsgi_route_busy_thread_seconds_total",
        "Time of busy threads by the route of their request, from samples. The rate of all routes together is the "
        "observed concurrency. It says nothing about the number of requests. Opt-in (routes): 51 series at most.",
        [
            (label_set(**server.labels, route=route), seconds)
            for server in scrape.servers
            for routes in (server.observation.totals.routes,)
            if routes is not None
            for route, seconds in routes.by_route().items()
        ],
    )
