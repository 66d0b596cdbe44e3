"""Findings about listen queues."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.formatting import duration, factor
from uwsgi_headroom.reading import Reading

FILLING = 0.5
"""Mean length over its limit from which a queue may overflow in the next burst."""

WAIT_NOTICED = 0.25
"""Wait over response time from which users notice the queue."""


def find(figures: Figures, reading: Reading) -> Iterator[Finding]:
    """Findings of this module."""
    window = figures.window
    for name, backlog in reading.listen_queues().items():
        area = window.queue_seconds.get(name)
        if backlog.queue is None:
            yield Finding(
                code="queue_not_measurable",
                severity="info",
                title=f"The listen queue of {name} cannot be measured.",
                evidence=f"{backlog.reason}.",
                meaning="Requests that wait there are seen by nobody: not by uWSGI, which says 0, and not here.",
            )
        elif area is not None and window.observed_seconds and backlog.limit:
            mean = area / window.observed_seconds
            if mean >= FILLING * backlog.limit or backlog.queue >= backlog.limit:
                yield _filling(name, mean, backlog.queue, backlog.limit)
    wait, response_time = figures.flow.queue_wait, figures.flow.response_time
    if wait is not None and response_time and wait >= WAIT_NOTICED * response_time:
        yield Finding(
            code="queue_wait",
            severity="warning",
            title=f"A request waits {duration(wait)} before uWSGI sees it.",
            evidence=f"{factor(wait / response_time)} the {duration(response_time)} it is in service.",
            meaning="Users wait for both; uWSGI's own response times do not show it.",
            change="Add capacity: see what gives out first.",
        )


def _filling(name: str, mean: float, now: int, limit: int) -> Finding:
    return Finding(
        code="queue_filling",
        severity="critical",
        title=f"The listen queue of {name} is filling up.",
        evidence=f"{mean:.1f} connections waiting on average, {now} now, of {limit} that fit.",
        meaning="When it is full, clients are refused (UNIX) or left to time out (TCP).",
        change="Add capacity first: a queue only delays. For bursts, raise uWSGI's `listen`, and before it "
        f"net.core.somaxconn, which it may not exceed (the limit now is {limit}).",
    )
