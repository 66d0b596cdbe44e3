"""Judges how long requests wait in the listen queue: whether users notice, and whether it is most of their wait.

A wait is compared with absolute thresholds and with the time in service: users do not notice 20 ms before an answer
that takes 2 ms, nor 0.1 s before one that takes 10 s.
"""

from __future__ import annotations

from typing import Literal

from uwsgi_headroom.analysis.littles_law import Flow
from uwsgi_headroom.words.formats import duration

SHOWN = (0.01, 0.25)
"""At or above this mean wait, in seconds and as a multiple of the response time, a limit is reached. Simultaneous
arrivals explain a shorter wait."""

NOTICED = (0.1, 0.25)
"""At or above this mean wait, users notice the queue (the longest waits are several times the mean)."""

SEVERE = (0.5, 1.0)
"""At or above this mean wait, users spend most of their time in the queue."""

STANDING = 0.5
"""If no request is completed and the mean length of the queue is at least this, requests are blocked."""

Waiting = Literal["none", "shown", "noticed", "severe"]


def judge_waiting(flow: Flow) -> Waiting | None:
    """How long requests wait; None if the queues cannot be measured, or no requests came."""
    if is_standing(flow):
        return "severe"
    if flow.queue_wait is None:
        return None
    if _exceeds(flow, SEVERE):
        return "severe"
    if _exceeds(flow, NOTICED):
        return "noticed"
    return "shown" if _exceeds(flow, SHOWN) else "none"


def is_standing(flow: Flow) -> bool:
    """Whether requests wait and none is completed, so that their wait is unknown."""
    return not flow.requests and flow.queue_length is not None and flow.queue_length >= STANDING


def shows_a_limit(flow: Flow) -> bool:
    """Whether requests wait in the queue because a resource is scarce."""
    return judge_waiting(flow) in ("shown", "noticed", "severe")


def waiting_clause(flow: Flow) -> str:
    """The wait as a clause, to follow a semicolon."""
    if is_standing(flow):
        return "requests wait, and none is completed"
    if flow.queue_wait is None:
        return "whether requests wait is not known"
    if flow.queue_wait < 0.1 * SHOWN[0]:
        return "no request waits"
    if flow.queue_wait < SHOWN[0]:
        return "hardly any request waits"
    return f"requests wait {duration(flow.queue_wait)} in the listen queue"


def _exceeds(flow: Flow, thresholds: tuple[float, float]) -> bool:
    seconds, ratio = thresholds
    wait, served = flow.queue_wait or 0.0, flow.response_time or 0.0
    return wait >= seconds and wait >= ratio * served
