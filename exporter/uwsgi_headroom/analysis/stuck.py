"""Requests that do not end. uWSGI says since when each thread is at its request, so no samples have to be compared."""

from __future__ import annotations

from collections.abc import Iterable

from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker

STUCK_SECONDS = 30.0
"""Age from which a request in service is called stuck. Raise it where long requests are meant."""

MANY_STUCK = 0.5
"""Part of the threads that are stuck from which many requests find none."""


def request_ages(reading: Reading, worker: Worker) -> list[float]:
    """Ages in seconds of the requests in service in a worker, the oldest first; what a killed worker left is none."""
    if reading.process_is_missing(worker):
        return []
    return [max(0.0, reading.time - start) for start in sorted(worker.request_starts)]


def request_ages_by_thread(reading: Reading, worker: Worker) -> dict[int, float | None]:
    """The age in seconds of the request in service in each thread that has one, None where it is not known."""
    if reading.process_is_missing(worker):
        return {}
    return {thread: start and max(0.0, reading.time - start) for thread, start in worker.serving.items()}


def find_stuck_requests(reading: Reading, workers: Iterable[Worker]) -> list[tuple[float, int]]:
    """Age in seconds and worker id of each stuck request in these workers of a reading, the oldest first."""
    requests = ((age, worker.worker_id) for worker in workers for age in request_ages(reading, worker))
    return sorted(((age, worker_id) for age, worker_id in requests if age >= STUCK_SECONDS), reverse=True)
