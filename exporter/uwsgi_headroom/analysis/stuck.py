"""Finds stuck requests. uWSGI reports the start of each request in service, so one reading is enough."""

from __future__ import annotations

from collections.abc import Iterable

from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker

STUCK_SECONDS = 30.0
"""A request in service for at least this long counts as stuck. Raise it if long requests are intended."""

MANY_STUCK = 0.5
"""If at least this fraction of the threads is stuck, many requests find no free thread."""


def request_ages(reading: Reading, worker: Worker) -> list[float]:
    """Ages in seconds of the requests in service in a worker, oldest first; empty for a killed worker."""
    if reading.process_is_missing(worker):
        return []
    return [max(0.0, reading.time - start) for start in sorted(worker.request_starts)]


def request_ages_by_thread(reading: Reading, worker: Worker) -> dict[int, float | None]:
    """The age in seconds of the request in each busy thread, by thread number; None if unknown."""
    if reading.process_is_missing(worker):
        return {}
    return {thread: start and max(0.0, reading.time - start) for thread, start in worker.serving.items()}


def find_stuck_requests(reading: Reading, workers: Iterable[Worker]) -> list[tuple[float, int]]:
    """Age in seconds and worker id of each stuck request in these workers of a reading, oldest first."""
    requests = ((age, worker.worker_id) for worker in workers for age in request_ages(reading, worker))
    return sorted(((age, worker_id) for age, worker_id in requests if age >= STUCK_SECONDS), reverse=True)
