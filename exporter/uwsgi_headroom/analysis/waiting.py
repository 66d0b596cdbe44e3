"""Whether requests wait in the listen queue so long that users notice, and whether all of them do.

A wait counts by itself and against the time in service: 20 ms before an answer that takes 2 ms is not noticed, nor is
0.1 s before one that takes 10 s.
"""

from __future__ import annotations

from typing import Literal

from uwsgi_headroom.analysis.formatting import duration
from uwsgi_headroom.analysis.littles_law import Flow

NOTICED = (0.1, 0.25)
"""Mean wait in seconds, and against the response time, from which users notice the queue (the wait of the unlucky is
several times the mean)."""

SEVERE = (0.5, 1.0)
"""The same, from which most of the time that users wait is in the queue."""

Waiting = Literal["none", "noticed", "severe"]


def judge_waiting(flow: Flow) -> Waiting | None:
    """How much requests wait; None where the queues cannot be measured, or nothing came."""
    if flow.queue_wait is None:
        return None
    if _exceeds(flow, SEVERE):
        return "severe"
    return "noticed" if _exceeds(flow, NOTICED) else "none"


def waiting_clause(flow: Flow) -> str:
    """What is known of the wait, to go behind a semicolon."""
    if flow.queue_wait is None:
        return "whether requests wait is not known"
    if judge_waiting(flow) == "none" and flow.queue_wait < NOTICED[0]:
        return "hardly a request waits"
    return f"a request waits {duration(flow.queue_wait)} before uWSGI sees it"


def _exceeds(flow: Flow, thresholds: tuple[float, float]) -> bool:
    seconds, ratio = thresholds
    wait, served = flow.queue_wait or 0.0, flow.response_time or 0.0
    return wait >= seconds and wait >= ratio * served
