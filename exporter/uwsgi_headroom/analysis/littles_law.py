"""Throughput, response time and concurrency of a server (Little's law: L = λ W).

J. D. C. Little, "A Proof for the Queuing Formula: L = λW", Operations Research 9 (3), 1961. The law holds for any
stable system over a long window, whatever the distributions. uWSGI counts a request, and adds its time, when it ends:
over a window the law's L lags behind by what is in flight, and never hears of what is killed. Concurrency observed by
sampling sees both, so the difference of the two is work in flight, or stuck.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from uwsgi_headroom.history.totals import sum_if_all_known
from uwsgi_headroom.history.window import Window, WorkerWindow


@dataclass(frozen=True, slots=True)
class Flow:
    """requests: completed; throughput λ: requests a second; response_time W: seconds, static files left out;
    concurrency: mean requests in service, by Little's law and as observed; queue_wait: mean seconds that a request
    waited in a listen queue before uWSGI saw it; queue_length: how many waited on average."""

    requests: int
    throughput: float | None
    response_time: float | None
    littles_law: float | None
    observed: float | None
    queue_wait: float | None
    queue_length: float | None


def compute_flow(window: Window) -> Flow:
    """The flow of requests through a server in a window."""
    requests = sum(worker.requests for worker in window.workers)
    running = sum_if_all_known([worker.running_time for worker in window.workers])
    busy = sum_if_all_known([worker.busy_seconds for worker in window.workers])
    return Flow(
        requests=requests,
        throughput=ratio(requests, window.seconds),
        response_time=response_time(window.workers),
        littles_law=None if running is None else ratio(running, window.seconds),
        observed=None if busy is None else ratio(busy, window.observed_seconds),
        queue_wait=queue_wait(window, requests),
        queue_length=queue_length(window),
    )


def response_time(workers: Iterable[WorkerWindow]) -> float | None:
    """Mean time in service over those of these workers whose running time is known, static files left out. Seconds."""
    known = [
        (worker.running_time, worker.requests - worker.static_requests)
        for worker in workers
        if worker.running_time is not None
    ]
    return ratio(sum(running for running, _ in known), sum(timed for _, timed in known))


def queue_wait(window: Window, requests: int) -> float | None:
    """Little's law on the listen queues: mean length over the rate of requests that left it. Seconds.

    Samples cover observed_seconds and requests all of the window, so each is taken by its own time.
    """
    length = queue_length(window)
    return None if length is None or not window.seconds else ratio(length, requests / window.seconds)


def queue_length(window: Window) -> float | None:
    """How many connections waited in all listen queues, on average; None where none is measured."""
    if not window.queue_seconds:
        return None
    return ratio(sum(window.queue_seconds.values()), window.observed_seconds)


def ratio(part: float, whole: float) -> float | None:
    """part / whole, or None where there is no whole."""
    return part / whole if whole > 0 else None
