"""Conditions for a wait in the listen queue that users notice: `uwsgi_headroom.analysis.littles_law` in PromQL.

If a queue cannot be measured, or no request arrived, the wait is unknown and both conditions are false.
"""

from __future__ import annotations

from alerts.thresholds import Thresholds
from uwsgi_headroom.analysis.littles_law import STEADY


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


def many_wait(t: Thresholds, self: str = "") -> str:
    """The requests that wait now over the seconds of the window, of servers that completed too few in it for Little's
    law. self: the labels of one server."""
    now, rate = f"uwsgi_socket_queue_length{self}", f"server:uwsgi_requests:rate{t.window}{self}"
    return f"sum without (socket) ({now}) / {t.window_seconds:g} > {rate} / {STEADY:g}"


def _times(t: Thresholds) -> tuple[str, str]:
    """The mean wait, and the mean time in service."""
    return (
        f"server:uwsgi_queue_wait_seconds:ratio_rate{t.window}",
        f"server:uwsgi_response_time_seconds:ratio_rate{t.window}",
    )
