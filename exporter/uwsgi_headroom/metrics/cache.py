"""uWSGI's caches."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import counter, gauge, name_apart
from uwsgi_headroom.metrics.scrape import Scrape, labels_of


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every cache of the scrape."""
    caches = [
        (labels_of(server.observation, name=name), cache)
        for server in scrape.servers
        for name, cache in name_apart(server.snapshot.caches, lambda cache: cache.name)
    ]
    yield counter(
        "uwsgi_cache_hits_total", "Lookups that found an item.", [(labels, cache.hits) for labels, cache in caches]
    )
    yield counter(
        "uwsgi_cache_misses_total",
        "Lookups that found no item.",
        [(labels, cache.misses) for labels, cache in caches],
    )
    yield counter(
        "uwsgi_cache_full_total",
        "Items rejected because the cache was full.",
        [(labels, cache.full) for labels, cache in caches],
    )
    yield gauge("uwsgi_cache_items", "Items in the cache.", [(labels, cache.items) for labels, cache in caches])
    yield gauge(
        "uwsgi_cache_max_items",
        "Items the cache can hold.",
        [(labels, cache.max_items) for labels, cache in caches],
    )
