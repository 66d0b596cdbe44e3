"""uWSGI's caches."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, gauge
from uwsgi_headroom.metrics.scrape import Scrape, labels_of


def families(scrape: Scrape) -> Iterator[Metric]:
    """Families of this module, for every cache of the scrape."""
    caches = [
        (labels_of(server.observation, name=cache.name), cache)
        for server in scrape.servers
        for cache in server.snapshot.caches
    ]
    yield counter(
        "uwsgi_cache_hits_total", "Look-ups that found an item.", [(labels, it.hits) for labels, it in caches]
    )
    yield counter(
        "uwsgi_cache_misses_total",
        "Look-ups that found none.",
        [(labels, it.misses) for labels, it in caches],
    )
    yield counter(
        "uwsgi_cache_full_total",
        "Items refused because the cache was full.",
        [(labels, it.full) for labels, it in caches],
    )
    yield gauge("uwsgi_cache_items", "Items in the cache.", [(labels, it.items) for labels, it in caches])
    yield gauge(
        "uwsgi_cache_max_items",
        "Items the cache can hold.",
        [(labels, it.max_items) for labels, it in caches],
    )
