"""Computes how evenly the workers share the requests, and the cost of unevenness.

Shares alone show no harm: an idle uWSGI is always uneven. The response time of each worker, together with the load of
its interpreter, distinguishes harm from chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

from msgspec import Struct

from uwsgi_headroom.analysis.littles_law import ratio, response_time
from uwsgi_headroom.history.window import Window

ACTIVE = 0.9
"""The fraction of the window in which a worker must have accepted requests to be compared with the others. Workers that
cheaper mode spawns meanwhile have small shares for that alone."""

ENOUGH_REQUESTS = 100
"""The fewest requests, in all calm workers together, for a comparison of response times."""


class WorkerFigures(Struct, frozen=True, gc=False):
    """Figures of one worker in a window."""

    worker_id: int
    requests: int
    share: float | None
    """Its fraction of all requests."""
    response_time: float | None
    """In seconds."""
    interpreter_load: float | None
    """CPU seconds per second; a CPython interpreter can use at most one CPU."""
    concurrency: float | None
    """Mean busy threads."""
    active: bool
    """Whether it accepted requests for nearly the whole window."""
    lock_waiters: float | None = None
    """Mean number of its threads that wait for the interpreter lock; None if unknown."""
    lock_waited: float | None = None
    """The part of the time in which a thread waits for a lock of the application; None if none was seen."""


class Balance(Struct, frozen=True, gc=False, kw_only=True):
    """How evenly the active workers share the requests. active: number of active workers; even_share: the part of
    the requests that they served / active; hot_ratio: largest share / even share, among active workers; noise_floor:
    the hot_ratio that chance alone explains; fairness: Jain's index, 1 is even; cost: the share of the response time
    that balancing would save; calm_response_time: of the half of the workers with the smaller shares; hottest: id of
    the worker with the largest share."""

    active: int
    even_share: float | None = None
    hot_ratio: float | None = None
    noise_floor: float | None = None
    fairness: float | None = None
    calm_response_time: float | None = None
    cost: float | None = None
    hottest: int | None = None


def compute_workers(window: Window) -> tuple[WorkerFigures, ...]:
    """The figures of the workers of a window."""
    requests, waits = sum(worker.requests for worker in window.workers), window.waits
    return tuple(
        [
            WorkerFigures(
                worker_id=worker.worker_id,
                requests=worker.requests,
                share=ratio(worker.requests, requests),
                response_time=response_time([worker]),
                interpreter_load=ratio(worker.cpu_seconds, window.seconds),
                concurrency=ratio(worker.busy_seconds, window.observed_seconds),
                active=worker.up_seconds >= ACTIVE * window.observed_seconds > 0,
                lock_waiters=ratio(worker.interpreter_lock_seconds, waits.observed_seconds) if waits else None,
                lock_waited=ratio(worker.lock_waited_seconds, worker.lock_seconds or 0.0),
            )
            for worker in window.workers
        ]
    )


def compute_balance(window: Window, workers: Sequence[WorkerFigures]) -> Balance:
    """Compare the active ones of the workers of a window."""
    active = [worker for worker in workers if worker.active]
    counts, requests = [worker.requests for worker in active], sum(worker.requests for worker in workers)
    calm, mean = _calm_response_time(window, active), response_time(window.workers)
    return Balance(
        active=len(active),
        even_share=ratio(sum(counts) / requests if requests else 1.0, len(active)),
        hot_ratio=ratio(len(active) * max(counts, default=0), sum(counts)),
        noise_floor=noise_floor(len(active), sum(counts)),
        # R. Jain et al., DEC TR-301, 1984
        fairness=ratio(sum(counts) ** 2, len(counts) * sum(count * count for count in counts)),
        calm_response_time=calm,
        cost=max(0.0, 1 - calm / mean) if calm is not None and mean else None,
        hottest=max(active, key=lambda worker: worker.requests).worker_id if any(counts) else None,
    )


def noise_floor(workers: int, requests: int) -> float | None:
    """The hot ratio that random assignment exceeds once in several hundred windows. A count is binomial with p = 1/N,
    and the largest of N exceeds z standard deviations as rarely as the larger of two exceeds three if z² = 9 + 2
    ln(N/2). The last term corrects for the skew of small counts (Cornish, Fisher 1938)."""
    if workers < 1 or requests < 1:
        return None
    if workers == 1:
        return 1.0
    z_squared = 9 + 2 * log(workers / 2)
    return 1 + sqrt(z_squared * (workers - 1) / requests) + (z_squared - 1) / 6 * workers / requests


def _calm_response_time(window: Window, active: list[WorkerFigures]) -> float | None:
    """Response time of the half of the active workers that served fewer requests; None if these are too few."""
    busiest = sorted((worker.requests, worker.worker_id) for worker in active)
    calm = {worker_id for _, worker_id in busiest[: min(len(busiest) - 1, (len(busiest) + 1) // 2)]}
    workers = tuple(worker for worker in window.workers if worker.worker_id in calm)
    enough = sum(worker.requests - worker.static_requests for worker in workers) >= ENOUGH_REQUESTS
    return response_time(workers) if enough else None
