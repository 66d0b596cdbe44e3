"""Conditions for a wait in the listen queue that users notice: `uwsgi_headroom.analysis.littles_law` in PromQL.

If a queue cannot be measured, or no request arrived, the wait is unknown and both conditions are false.
"""

from __future__ import annotations

from alerts.thresholds import Thresholds


def noticed(t: Thresholds) -> str:
    """The mean wait in seconds, of servers whose users notice it: `noticed_wait`."""
    wait, served = _times(t)
    # clamp() is empty, and the alert silent, where the least is above the most.
    least = min(t.queue_wait_least_seconds, t.queue_wait_seconds)
    return f"{wait} >= clamp({t.queue_wait_ratio} * {served}, {least}, {t.queue_wait_seconds})"


def severe(t: Thresholds) -> str:
    """The mean wait in seconds, of servers whose users wait for most of their time in the queue."""
    wait, served = _times(t)
    return f"{wait} >= {t.queue_wait_severe_seconds} and {wait} >= {t.queue_wait_severe_ratio} * {served}"


def _times(t: Thresholds) -> tuple[str, str]:
    """The mean wait, and the mean time in service."""
    return (
        f"server:uwsgi_queue_wait_seconds:ratio_rate{t.window}",
        f"server:uwsgi_response_time_seconds:ratio_rate{t.window}",
    )
