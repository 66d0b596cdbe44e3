"""Whether requests wait in the listen queue, whether users notice, and whether it is most of what they wait for.

A wait counts by itself and against the time in service: nobody notices 20 ms before an answer that takes 2 ms, nor
0.1 s before one that takes 10 s.
"""

from __future__ import annotations

from typing import Literal

from uwsgi_headroom.analysis.formatting import duration
from uwsgi_headroom.analysis.littles_law import Flow

SHOWN = (0.01, 0.25)
"""Mean wait in seconds, and against the response time, that shows a limit to be reached: below, requests that come at
the same instant explain it."""

NOTICED = (0.1, 0.25)
"""The same, from which users notice the queue (the wait of the unlucky is several times the mean)."""

SEVERE = (0.5, 1.0)
"""The same, from which most of the time that users wait is in the queue."""

STANDING = 0.5
"""Mean length of the queue from which it stands still where no request at all is completed."""

Waiting = Literal["none", "shown", "noticed", "severe"]


def judge_waiting(flow: Flow) -> Waiting | None:
    """How much requests wait; None where the queues cannot be measured, or nothing came."""
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
    """Whether requests wait and none is completed: how long they will have waited is not known then."""
    return not flow.requests and flow.queue_length is not None and flow.queue_length >= STANDING


def shows_a_limit(flow: Flow) -> bool:
    """Whether requests wait in the queue for what is short."""
    return judge_waiting(flow) in ("shown", "noticed", "severe")


def waiting_clause(flow: Flow) -> str:
    """What is known of the wait, to go behind a semicolon."""
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
