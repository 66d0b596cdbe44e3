"""Computes which load a lock of the application permits: it serves one request at a time.

By the utilization law, a mean request holds the lock for (share of the time that it is held) / throughput, and the
limit is the load at which it is always held. Each worker process has its own lock; the lock of a file is one for all. A
pool of connections is computed in the same way. Where it may not be read whether a lock is held, who waits for it tells
a range: with use u, someone waits for u² of the time if requests hold it for exponential times, and 1 - (1 - u) e^u if
these are alike (D. Gross et al., "Fundamentals of Queueing Theory", 2008).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, sqrt
from typing import Literal

from msgspec import Struct

from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.history.window import Window, WorkerWindow
from uwsgi_headroom.record import WORKING, State

LEAST_USE = 0.4
"""The use of a lock, in the worker that uses it most, from which on its limit is known. Below it, too few samples find
the lock held."""

LEAST_KNOWN = 0.5
"""The part of a window in which a lock has to be known."""

LEAST_SECONDS, LEAST_REQUESTS = 10.0, 20
"""For how long it has to be known at least, and how many requests there have to be: fewer samples are chance."""

_ROUNDS = 30

Scope = Literal["worker", "file"]


class LockFigures(Struct, frozen=True):
    """The lock that is closest to its limit in a window. scope: whether each worker has its own."""

    scope: Scope
    seconds: float
    """How long a request of the mean mix holds it."""
    use: float
    """The part of all locks together that is in use at this load, 0 to 1."""
    hottest: float
    """The same in the worker that uses it most."""
    limit: float
    """Requests per second at which all are always held."""
    least_limit: float
    most_limit: float
    """What the limit can be; both are `limit` if it was read whether the locks are held."""

    @property
    def is_known(self) -> bool:
        """Whether the lock is used enough to know its limit."""
        return self.hottest >= LEAST_USE


def compute_lock(window: Window) -> LockFigures | None:
    """The figures of the lock that is closest to its limit; None if none was seen."""
    known, of_file = window.file_lock_seconds, None
    if known and window.file_lock_held_seconds is not None and _is_enough(known, window):
        of_file = _of_use("file", window, window.file_lock_held_seconds / known)
    found = [lock for lock in (_of_workers(window), of_file) if lock]
    return max(found, key=lambda lock: (lock.is_known, lock.use), default=None)


def compute_pool(window: Window, pools: Mapping[int, int], threads: Mapping[State, float]) -> LockFigures | None:
    """The figures of a pool of connections that each worker has. pools: their sizes; threads: mean number by state."""
    up = _count_up(window)
    if not pools or not up or window.observed_seconds < LEAST_SECONDS:
        return None
    busy = sum(threads.get(state, 0.0) for state in WORKING)
    return _of_use("worker", window, busy / (max(pools.values()) * up), up)


def _count_up(window: Window) -> float:
    return sum(min(1.0, ratio(worker.up_seconds, window.observed_seconds) or 0.0) for worker in window.workers)


def _of_use(scope: Scope, window: Window, use: float, locks: float = 1.0) -> LockFigures | None:
    """The figures of so many locks that are in use for this part of the time."""
    requests, use = sum(worker.requests for worker in window.workers), min(1.0, use)
    if requests < LEAST_REQUESTS or not use:
        return None
    limit = requests / window.seconds / use
    return LockFigures(scope, locks / limit, use, use, limit, limit, limit)


def _of_workers(window: Window) -> LockFigures | None:
    known = [worker for worker in window.workers if worker.requests and _is_enough(worker.lock_seconds, window)]
    requests = sum(worker.requests for worker in known)
    if requests < LEAST_REQUESTS:
        return None
    throughput = requests / window.seconds
    ranges = [_use_of(worker) for worker in known]
    least, most = (sum(each) for each in zip(*ranges, strict=True))
    if not least:
        return None
    up = _count_up(window)
    seconds = (least + most) / 2 / throughput
    limit = up / seconds
    return LockFigures(
        scope="worker",
        seconds=seconds,
        use=min(1.0, sum(worker.requests for worker in window.workers) / window.seconds / limit),
        hottest=max((low + high) / 2 for low, high in ranges),
        limit=limit,
        least_limit=up * throughput / most,
        most_limit=up * throughput / least,
    )


def _is_enough(known: float | None, window: Window) -> bool:
    return known is not None and known >= max(LEAST_SECONDS, LEAST_KNOWN * window.observed_seconds)


def _use_of(worker: WorkerWindow) -> tuple[float, float]:
    """The least and the most use of a worker's lock, from the part of the known time in which someone waits."""
    known = worker.lock_seconds or 1.0
    if worker.lock_held_seconds is not None:
        use = min(1.0, worker.lock_held_seconds / known)
        return use, use
    waited, low, high = min(1.0, (worker.lock_waited_seconds or 0.0) / known), 0.0, 1.0
    for _ in range(_ROUNDS):  # if all requests hold it for as long
        use = (low + high) / 2
        low, high = (use, high) if 1 - (1 - use) * exp(use) < waited else (low, use)
    return sqrt(waited), (low + high) / 2
