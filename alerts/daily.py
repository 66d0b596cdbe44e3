"""The day that ends now, of utilization, headroom and requests: what capacity reviews ask for, over months.

Each series is a sliding day, so that a query needs no range of its own: at a step of `1d` it is a table of calendar
days (UTC, started at a midnight), and `max_over_time(server:uwsgi_utilization:max1d[90d])` is the peak of a quarter.
That needs 90 days of retention; Prometheus keeps 15 unless told.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts.rule import Group, Recording
from alerts.thresholds import Thresholds

INTERVAL = "4m"
"""Prometheus shows a sample for five minutes, so a series recorded every hour could not be seen for most of it. Rarer
would hardly be cheaper: for 100 servers with a point a minute, an evaluation of their rules takes 0.13 CPU seconds,
and the peak of 90 days of one of these series, of all 100, takes 0.2 (Prometheus 2.42)."""


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
    ]
