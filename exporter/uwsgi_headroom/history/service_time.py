"""Bounds the running time that a worker can have added between two samples. No wall clock is used.

uWSGI adds a request's whole time when it ends, by its host's wall clock: when that clock steps forward by an hour,
each request in service adds an hour. But a thread serves one request after the other. Between two samples it can have
added the time between them, and before that the time that the request in its hands had been there already; both are
known from the exporter's monotonic clock, and more than their sum is not time.

A request that was in service at the first sample may be of any age: until it has ended, nothing is bounded. Where
uWSGI does not list threads (stats-no-cores) nothing is either.
"""

from __future__ import annotations

import math

from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker

SLACK = 1.1
"""By how much uWSGI's clock may run faster than the exporter's: chrony slews by a twelfth at most."""

_Serving = dict[int, tuple[int | None, float]]
"""By thread: uWSGI's date of its request, and an instant (monotonic) at which that had not begun yet."""


class ServiceTime:
    """Since when the threads of one server have been serving their requests."""

    def __init__(self) -> None:
        self._serving: dict[int, _Serving] = {}
        self._earlier: dict[int, _Serving] = {}
        self._sampled_at = -math.inf  # not later than uWSGI wrote the last document

    def note(self, reading: Reading, workers: tuple[Worker, ...]) -> None:
        """Take note of the requests in service at a sample, after the workers' bounds were asked for."""
        self._earlier, self._serving = (
            self._serving,
            {worker.worker_id: self._since(worker) for worker in workers if worker.serving},
        )
        self._sampled_at = reading.at - reading.read_seconds

    def bound(self, worker: Worker, at: float) -> float:
        """The most seconds of running time that a worker can have added since the last sample, at this instant."""
        if worker.threads is None:
            return math.inf
        # uWSGI writes a worker's running time before it writes which threads are serving. So the time of a request
        # that ended in between is added at the sample after the one at which its thread was no longer seen serving.
        since: dict[int, float] = {}
        for serving in (self._earlier.get(worker.worker_id, {}), self._serving.get(worker.worker_id, {})):
            for thread, (_, began) in serving.items():
                since[thread] = min(began, since.get(thread, math.inf))
        # Of a request from before the first sample this is infinite.
        in_hand = sum(self._sampled_at - began for began in since.values())
        return SLACK * (in_hand + worker.threads * (at - self._sampled_at))

    def _since(self, worker: Worker) -> _Serving:
        before = self._serving.get(worker.worker_id, {})
        return {
            thread: before[thread] if thread in before and before[thread][0] == start else (start, self._sampled_at)
            for thread, start in worker.serving.items()
        }
