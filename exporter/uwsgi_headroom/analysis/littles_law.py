"""Throughput, response time and concurrency of a server (Little's law: L = λ W).

J. D. C. Little, "A Proof for the Queuing Formula: L = λW", Operations Research 9 (3), 1961. The law holds for any
stable system over a long window, whatever the distributions. uWSGI counts a request, and adds its time, when it ends:
over a window the law's L lags behind by what is in flight, and never hears of what is killed. Concurrency observed by
sampling sees both, so the difference of the two is work in flight, or stuck.
"""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.window import Window


@dataclass(frozen=True, slots=True)
class Flow:
    """requests: completed; throughput λ: requests a second; response_time W: seconds, static files left out;
    concurrency: mean requests in service, by Little's law and as observed; queue_wait: mean seconds that a request
    waited in a listen queue before uWSGI saw it."""

    requests: int
    throughput: float | None
    response_time: float | None
    littles_law: float | None
    observed: float | None
    queue_wait: float | None


def flow(window: Window) -> Flow:
    """The flow of requests through a server in a window."""
    requests = sum(worker.requests for worker in window.workers)
    timed = requests - sum(worker.static_requests for worker in window.workers)
    running = [worker.running_time for worker in window.workers if worker.running_time is not None]
    busy = [worker.busy_seconds for worker in window.workers if worker.busy_seconds is not None]
    return Flow(
        requests=requests,
        throughput=ratio(requests, window.seconds),
        response_time=ratio(sum(running), timed) if running else None,
        littles_law=ratio(sum(running), window.seconds) if running else None,
        observed=ratio(sum(busy), window.observed_seconds) if busy else None,
        queue_wait=queue_wait(window, requests),
    )


def queue_wait(window: Window, requests: int) -> float | None:
    """Little's law on the listen queues: mean length over the rate of requests that left it. Seconds.

    Samples cover observed_seconds and requests all of the window, so each is taken by its own time.
    """
    if not window.queue_seconds or not window.observed_seconds or not window.seconds:
        return None
    length = sum(window.queue_seconds.values()) / window.observed_seconds
    return ratio(length, requests / window.seconds)


def ratio(part: float, whole: float) -> float | None:
    """part / whole, or None where there is no whole."""
    return part / whole if whole > 0 else None
