"""Draws the chart of page one: how full the first limit of each service is."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.report.render.charts.limits import draw_bars
from uwsgi_headroom.report.render.figures import limit_name
from uwsgi_headroom.report.review.model import Absent, LimitUse
from uwsgi_headroom.report.review.outlook_model import ServiceReview

MOST_SERVICES = 3
"""With more, page one has no room for the chart; section 2 has one for each service."""


def bars_of(services: Sequence[ServiceReview]) -> list[tuple[str, LimitUse]]:
    """For a single service each of its limits; for several the limit that comes first in each; nothing
    for many."""
    if len(services) > MOST_SERVICES:
        return []
    if len(services) == 1:
        used = services[0].utilization
        return [] if isinstance(used, Absent) else [(limit_name(use.limit), use) for use in used.limits]
    rows: list[tuple[str, LimitUse]] = []
    for service in services:
        used = service.utilization
        if not isinstance(used, Absent):
            rows += [
                (f"{service.service}: {limit_name(use.limit)}", use) for use in used.limits if use.limit == used.first
            ]
    return rows


def draw_verdict(services: Sequence[ServiceReview]) -> str:
    """The chart; empty without any bar."""
    rows = bars_of(services)
    title = "Use of each limit at peak" if len(services) == 1 else "Use at peak of the limit that comes first"
    return draw_bars(rows, title) if rows else ""
