"""uWSGI's locks between its processes."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from uwsgi_headroom.metrics.family import gauge
from uwsgi_headroom.metrics.scrape import Scrape, labels_of


def families(scrape: Scrape) -> Iterator[Metric]:
    """Build this module's families, for every lock of the scrape."""
    yield gauge(
        "uwsgi_lock_held",
        "Whether a process held the lock at the moment of the read. The holder of thunder waits for a connection.",
        [
            (labels_of(server.observation, lock=name), pid > 0)
            for server in scrape.servers
            for name, pid in (server.snapshot.locks or {}).items()
        ],
    )
