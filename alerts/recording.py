"""Recorded series: the figures at worker, server and service level, numerators and denominators aggregated apart."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.levels import by_server, by_service
from alerts.rule import Group, Recording
from alerts.thresholds import Thresholds


def groups(t: Thresholds) -> Sequence[Group]:
    """The groups of `recording.yaml`."""
    w = t.window
    requests = by_server("sum", f"rate(uwsgi_worker_requests_total[{w}])")
    return [
        Group(
            "uwsgi-headroom recording",
            [
                Recording(f"server:uwsgi_requests:rate{w}", requests),
                Recording(f"service:uwsgi_requests:rate{w}", by_service("sum", f"server:uwsgi_requests:rate{w}", t)),
            ],
        )
    ]
