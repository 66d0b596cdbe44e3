"""Bounds the running time that a worker can have added between two samples, without a wall clock.

uWSGI adds the whole time of a request at its end, by the host's wall clock: if that clock steps forward by an hour,
each request in service adds an hour. But a thread serves one request at a time. Between two samples it can add at most
the time between them, plus the age of the request that it served at the first sample. The exporter's monotonic clock
measures both; any excess is an error of uWSGI's clock.

The age of a request that was in service at the exporter's first sample is unknown, so there is no bound until the
request ends. If uWSGI does not list threads (stats-no-cores), there is no bound either.
"""

from __future__ import annotations

import math

from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker

SLACK = 1.1
"""How much faster uWSGI's clock may run than the exporter's. chrony slews by a twelfth at most."""

_Serving = dict[int, tuple[int | None, float]]
"""For each busy thread: the start of its request according to uWSGI, and a monotonic time before that start."""


class ServiceTime:
    """Records when each busy thread of one server began its request."""

    def __init__(self) -> None:
        self._serving: dict[int, _Serving] = {}
        self._earlier: dict[int, _Serving] = {}
        self._sampled_at = -math.inf  # at or before the time when uWSGI wrote the last document

    def note(self, reading: Reading, workers: tuple[Worker, ...]) -> None:
        """Record the requests in service at a sample. Call this after `bound` was called for each worker."""
        self._earlier, self._serving = (
            self._serving,
            {worker.worker_id: self._since(worker) for worker in workers if worker.serving},
        )
        self._sampled_at = reading.at - reading.read_seconds

    def bound(self, worker: Worker, at: float) -> float:
        """The most seconds of running time that a worker can have added from the last sample until `at`."""
        if worker.threads is None:
            return math.inf
        # uWSGI writes a worker's running time before the states of its threads. If a request ends between the two, its
        # thread is already idle in this sample, but its time is not added until the next one.
        since: dict[int, float] = {}
        for serving in (self._earlier.get(worker.worker_id, {}), self._serving.get(worker.worker_id, {})):
            for thread, (_, began) in serving.items():
                since[thread] = min(began, since.get(thread, math.inf))
        # Infinite for a request from before the first sample.
        in_hand = sum(self._sampled_at - began for began in since.values())
        return SLACK * (in_hand + worker.threads * (at - self._sampled_at))

    def _since(self, worker: Worker) -> _Serving:
        before = self._serving.get(worker.worker_id, {})
        return {
            thread: before[thread] if thread in before and before[thread][0] == start else (start, self._sampled_at)
            for thread, start in worker.serving.items()
        }
