"""Requests that do not end. uWSGI says since when each thread is at its request, so no samples have to be compared."""

from __future__ import annotations

from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats import Snapshot

STUCK_SECONDS = 30.0
"""Age from which a request in service is called stuck. Raise it where long requests are meant."""


def stuck(reading: Reading) -> list[tuple[float, int]]:
    """Age in seconds and worker id of each stuck request, the oldest first; what a killed worker left is none."""
    assert isinstance(reading.snapshot, Snapshot)
    ages = [
        (reading.time - start, worker.worker_id)
        for worker in reading.snapshot.workers
        if not reading.is_ghost(worker)
        for start in worker.request_starts
    ]
    return sorted((it for it in ages if it[0] >= STUCK_SECONDS), reverse=True)
