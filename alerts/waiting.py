"""Conditions for a wait in the listen queue that users notice: `uwsgi_headroom.analysis.littles_law` in PromQL.

If a queue cannot be measured, or no request arrived, the wait is unknown and both conditions are false.
"""

from __future__ import annotations

from alerts.thresholds import Thresholds


def noticed(t: Thresholds) -> str:
    """The mean wait in seconds, of servers whose users notice it."""
    return _exceeds(t, t.queue_wait_seconds, t.queue_wait_ratio)


def severe(t: Thresholds) -> str:
    """The mean wait in seconds, of servers whose users wait for most of their time in the queue."""
    return _exceeds(t, t.queue_wait_severe_seconds, t.queue_wait_severe_ratio)


def _exceeds(t: Thresholds, seconds: float, ratio: float) -> str:
    wait = f"server:uwsgi_queue_wait_seconds:ratio_rate{t.window}"
    served = f"server:uwsgi_response_time_seconds:ratio_rate{t.window}"
    return f"{wait} >= {seconds} and {wait} >= {ratio} * {served}"
