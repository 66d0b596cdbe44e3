"""Computes throughput, response time and concurrency by Little's law (L = λ W), and judges waits in the listen queue.

J. D. C. Little, Operations Research 9 (3), 1961. uWSGI counts a request when it ends, so the law's L has no requests in
service, and never killed ones, as sampled concurrency has. In a queue that fills, the law gives a wait that nobody has
had: then the mean over all requests, up to now, is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from msgspec import Struct

from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.history.window import Window, WorkerWindow
from uwsgi_headroom.record import Backlog, is_tcp
from uwsgi_headroom.words.formats import duration, least
from uwsgi_headroom.words.template import fill

Waiting = Literal["none", "noticed", "severe"]


class Flow(Struct, frozen=True, gc=False, kw_only=True):
    """Requests in the window. requests: completed, null without uWSGI's stats, as is all that follows from them;
    throughput: per second; response_time: mean time in service, without
    static files; littles_law, observed: mean requests in service, by Little's law and in samples; queue_wait: mean time
    a request waited in a listen queue; queue_length: mean number of requests in the listen queues; wait_is_floor:
    whether queue_wait is only a lower bound, because many requests still wait: it is then the mean over all that were
    completed, are served or wait, with their wait so far; total_time: response_time and queue_wait, what users wait
    without the network; waiting: how much users notice the wait in the queue, of several sockets at the worst one:
    none, noticed or severe. refused: connections per second that the kernel turned away at a full TCP queue, retries
    included; null if unknown, as at UNIX sockets. connections: TCP connections per second that clients made, null if
    requests are counted, or if other programs of the network namespace have such connections."""

    requests: int | None
    throughput: float | None
    response_time: float | None
    littles_law: float | None
    observed: float | None
    queue_wait: float | None
    queue_length: float | None = None
    total_time: float | None = None
    waiting: Waiting | None = None
    refused: float | None = None
    connections: float | None = None
    wait_is_floor: bool = False

    @property
    def completed(self) -> int:
        """The requests of which it is known that they were completed."""
        return self.requests or 0

    @property
    def concurrency(self) -> float | None:
        """The mean number in service: as observed, else by the law."""
        return self.littles_law if self.observed is None else self.observed


def compute_flow(window: Window, queues: Mapping[str, Backlog] | None = None) -> Flow:
    """The flow of requests through a server in a window. queues: the listen queues at its end."""
    requests = sum(worker.requests for worker in window.workers) if window.is_counted else None
    running = sum_if_all_known([worker.running_time for worker in window.workers])
    busy = sum_if_all_known([worker.busy_seconds for worker in window.workers])
    observed = ratio(busy, window.observed_seconds)
    waiting = sum([each.queue or 0 for name, each in (queues or {}).items() if name in window.queue_seconds])
    length = ratio(sum_if_all_known([*window.queue_seconds.values()]), window.observed_seconds)
    floor, serving = None, observed or 0.0
    passed: float | None = requests
    waited = ratio(length, ratio(requests, window.seconds) or 0.0)  # samples may cover less than the requests
    if requests is None and (length or 0.0) >= STANDING:
        passed, serving, waited = window.queue_left, 0.0, _wait_of_seen(window)
    if (passed or requests is None) and passed is not None and passed < STEADY * waiting:
        # The wait up to now of those that were completed, are served or wait.
        seconds = sum(window.queue_seconds.values()) / (passed + serving + waiting)
        waited = floor = min(seconds, window.observed_seconds)  # more if most of those left without being counted
    served = response_time(window.workers)
    return Flow(
        requests=requests,
        throughput=None if requests is None else ratio(requests, window.seconds),
        response_time=served,
        littles_law=ratio(running, window.seconds),
        observed=observed,
        queue_wait=waited,
        queue_length=length,
        total_time=sum_if_all_known([served, waited]),
        wait_is_floor=floor is not None,
        connections=ratio(window.connections, window.connections_seconds or 0.0),
    )


def _wait_of_seen(window: Window) -> float | None:
    """The mean wait of the requests that were seen in a queue and left it; None if it is too short for the time between
    two lists of the queue, which says by how much each may be wrong."""
    waited = ratio(window.queue_left_seconds, window.queue_left_timed or 0)
    apart = window.observed_seconds / max(1, window.queue_lists or 0)
    return waited if (waited or 0.0) >= SURE_LISTS * apart else None


SURE_LISTS = 1.0
"""A wait of so many lists of a queue is known to within a quarter: each request is in one of them."""

STEADY = 2.0
"""Little's law holds for a queue of which at least so many times as many requests were completed in the window as wait
at its end: with fewer, the law leaves out much of the wait."""


def response_time(workers: Iterable[WorkerWindow]) -> float | None:
    """Mean seconds in service per request of the workers with a known running time, without static files."""
    known = [worker for worker in workers if worker.running_time is not None]
    running = sum(worker.running_time or 0.0 for worker in known)
    return ratio(running, sum(worker.requests - worker.static_requests for worker in known))


MOSTLY_FULL, SEEN_WAITING = 0.9, 0.3
"""The share of the time without a free thread, and the mean wait in seconds, six samples of `check`."""


def longest_service(flow: Flow, window: Window) -> float | None:
    """The mean seconds in service where no request is counted, at most: by Little's law on those that left the queue,
    through which nearly all pass while no thread is free. None if unknown, as at TCP, of whose queue not each request
    is listed, and if many may have waited between two samples only."""
    if flow.requests is not None or flow.observed is None or (flow.queue_wait or 0.0) < SEEN_WAITING:
        return None
    if window.full_seconds < MOSTLY_FULL * window.observed_seconds or any(map(is_tcp, window.queue_seconds)):
        return None
    return ratio(flow.observed * window.observed_seconds, window.queue_left or 0)


def ratio(part: float | None, whole: float) -> float | None:
    """part / whole; None unless the part is known and the whole is positive."""
    return part / whole if part is not None and whole > 0 else None


WAIT_RATIO, LEAST_WAIT, MOST_WAIT = 0.25, 0.02, 0.1
"""Requests wait noticeably if their mean wait is at least this multiple of the response time; but no wait below the
second value, in seconds, counts, and every wait from the third on does. A limit is then reached: simultaneous arrivals
explain a shorter wait. The longest waits are several times the mean."""

SEVERE = (0.5, 1.0)
"""At or above this mean wait, in seconds and as a multiple of the response time, users spend most of their time in the
queue."""

STANDING = 0.5
"""If no request is completed and the mean length of the queue is at least this, requests are blocked. With a shorter
queue no wait is severe: in a minute of a quiet server, two or three requests that met by chance make the mean wait as
long as the response time."""

_NONE_SERVED = 0.01
"""Below this concurrency, requests that wait are compared with this one."""

WAITINGS: tuple[Waiting | None, ...] = (None, *get_args(Waiting))
"""From the least to the worst."""

NOTICED: tuple[Waiting, ...] = ("noticed", "severe")


def noticed_wait(response_time: float | None) -> float:
    """The mean wait in seconds from which on requests of a response time in seconds wait noticeably."""
    return min(MOST_WAIT, max(LEAST_WAIT, WAIT_RATIO * (response_time or 0.0)))


def judge_waiting(flow: Flow) -> Waiting | None:
    """How long requests wait; None if the queues cannot be measured, or no requests came."""
    if is_standing(flow):
        return "severe"
    if flow.queue_wait is None:
        return "noticed" if stands_uncounted(flow) else None
    seconds, multiple = SEVERE
    is_long = flow.queue_wait >= seconds and flow.queue_wait >= multiple * (flow.response_time or 0.0)
    if flow.requests is None:  # by Little's law, waits compare like numbers; most may have found the queue empty
        part = (flow.queue_length or 0.0) / max(flow.concurrency or 0.0, _NONE_SERVED)
        is_felt = flow.queue_wait >= MOST_WAIT and part >= WAIT_RATIO
        return "none" if not is_felt else "severe" if is_long and part >= multiple else "noticed"
    if is_long and (flow.queue_length or 0.0) >= STANDING:
        return "severe"
    return "noticed" if flow.queue_wait >= noticed_wait(flow.response_time) else "none"


def is_standing(flow: Flow) -> bool:
    """Whether requests wait and none is completed, so that their wait is unknown."""
    return flow.requests == 0 and flow.queue_length is not None and flow.queue_length >= STANDING


def stands_uncounted(flow: Flow) -> bool:
    """Whether requests stand in the queue of a server that counts none, and their wait is too short to be known."""
    length = flow.queue_length or 0.0
    return flow.requests is None and flow.queue_wait is None and length >= max(1.0, WAIT_RATIO * (flow.observed or 0.0))


def shows_a_limit(flow: Flow) -> bool:
    """Whether requests wait in the queue because a resource is scarce."""
    return judge_waiting(flow) in NOTICED


IDLE_WHILE_WAITING = 0.2
"""From this fraction of the time on in which requests wait beside a free thread, capacity is not what they wait for.
Raise it if, on busy CPUs, workers take long to wake."""


def waits_beside_free(window: Window, flow: Flow) -> bool:
    """Whether requests wait in the queue although threads are free: something keeps these from serving."""
    idle, observed = window.idle_queue_seconds or 0.0, window.observed_seconds
    return bool(observed) and idle >= IDLE_WHILE_WAITING * observed and shows_a_limit(flow)


EMPTY, NEARLY_EMPTY = 0.001, 0.01
"""Mean waits in seconds below which texts call the listen queue empty, and nearly empty."""

STANDS = "requests wait, and none is completed"
UNMEASURED = "it is not known whether requests wait in the listen queue"
QUEUE_IS = "the listen queue is [nearly? nearly ]empty"
STAND = "{length:threads} requests stand in the listen queue"
WAITS = "requests wait {wait} in the listen queue"


def waiting_clause(flow: Flow) -> str:
    """The wait as a clause, to follow a semicolon."""
    wait = flow.queue_wait
    if is_standing(flow):
        return STANDS
    if wait is None and flow.queue_length is None:
        return UNMEASURED
    if stands_uncounted(flow):
        return fill(STAND, {"length": flow.queue_length})
    if wait is None or wait < NEARLY_EMPTY:  # None as of a server that completes no request
        return fill(QUEUE_IS, {"nearly": bool(flow.queue_length) if wait is None else wait >= EMPTY})
    return fill(WAITS, {"wait": least(duration(wait), flow.wait_is_floor)})
