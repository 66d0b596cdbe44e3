"""Daily figures of utilization, headroom, requests and waits, for capacity reviews over months.

Each series covers the last 24 hours, so a query needs no range: at a step of `1d` it is a table of calendar days (UTC,
if it starts at midnight), and `max_over_time(server:uwsgi_utilization:max1d[90d])` is the peak of a quarter. That needs
90 days of retention; Prometheus keeps 15 by default.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts.rule import Group, Recording
from alerts.thresholds import Thresholds

INTERVAL = "4m"
"""Prometheus returns a sample for five minutes, so a series recorded every hour would be absent most of the time. A
longer interval would save little: for 100 servers with one point a minute, an evaluation of these rules takes 0.13 CPU
seconds (2.3 times as long where all servers have waits, with 13 states each), and a query for the 90-day peak of one
series of all 100 takes 0.2 (Prometheus 2.42)."""


def groups(t: Thresholds) -> Sequence[Group]:
    """The group of `daily.yaml`."""
    return [Group("uwsgi-headroom daily", [*_of("server", t), *_of("service", t)], interval=INTERVAL)]


def _of(level: str, t: Thresholds) -> Sequence[Recording]:
    w = t.window
    used = f"{level}:uwsgi_utilization:ratio_rate{w}[1d]"
    return [
        Recording(f"{level}:uwsgi_utilization:max1d", f"max_over_time({used})"),
        Recording(f"{level}:uwsgi_utilization:p95_1d", f"quantile_over_time(0.95, {used})"),
        Recording(f"{level}:uwsgi_utilization:p99_1d", f"quantile_over_time(0.99, {used})"),
        Recording(f"{level}:uwsgi_headroom:min1d", f"min_over_time({level}:uwsgi_headroom:ratio_rate{w}[1d])"),
        Recording(f"{level}:uwsgi_requests:max1d", f"max_over_time({level}:uwsgi_requests:rate{w}[1d])"),
        Recording(
            f"{level}:uwsgi_queue_wait_seconds:p95_1d",
            f"quantile_over_time(0.95, {level}:uwsgi_queue_wait_seconds:ratio_rate{w}[1d])",
        ),
        Recording(f"{level}:uwsgi_wait_threads:avg1d", f"avg_over_time({level}:uwsgi_wait_threads:ratio_rate{w}[1d])"),
    ]
