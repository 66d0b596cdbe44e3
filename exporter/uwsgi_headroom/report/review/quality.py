"""The quality of the data: how much of the range is covered, where the gaps are, and which figures are missing."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from uwsgi_headroom.report.columns import STEP, ReviewData, ServerData
from uwsgi_headroom.report.review.sections import ServerQuality

MOST_GAPS = 5

_FIGURES = {
    "cpu_own": "CPU use of the workers",
    "cpu_idle": "idle CPU",
    "cpu_others": "CPU use of other programs",
    "cpus": "usable CPUs",
    "queue": "listen queue",
    "memory_per_worker": "memory of a worker",
    "memory_available": "available memory",
    "running": "running time",
}
"""Columns without which a part of the review is missing, in words."""


def assess(data: ReviewData) -> tuple[ServerQuality, ...]:
    return tuple(_assess(server, data) for server in data.servers)


def _assess(server: ServerData, data: ReviewData) -> ServerQuality:
    known = np.isfinite(server.busy)
    times = server.time[known]
    quarters = max(1.0, (data.until - data.since) / STEP)
    return ServerQuality(
        server=server.server,
        service=server.service,
        host=server.host,
        covered=min(1.0, float(np.nan_to_num(server.covered).sum()) / quarters),
        first=float(times[0] - STEP) if len(times) else None,
        last=float(times[-1]) if len(times) else None,
        gaps=_gaps(times, data),
        unknown=_unknown(server, known),
    )


def _gaps(times: np.ndarray, data: ReviewData) -> tuple[tuple[float, float], ...]:
    """The longest times without data, in order of time."""
    ends = np.concatenate([[data.since], times, [data.until + STEP]])
    longer = [(end - STEP - start, start, end - STEP) for start, end in pairwise(ends)]
    longest = sorted((gap for gap in longer if gap[0] > STEP / 2), reverse=True)[:MOST_GAPS]
    return tuple((float(start), float(end)) for _, start, end in sorted(longest, key=lambda gap: gap[1]))


def _unknown(server: ServerData, known: np.ndarray) -> tuple[str, ...]:
    missing = [
        words for name, words in _FIGURES.items() if known.any() and not np.isfinite(getattr(server, name)).any()
    ]
    parts = {
        "figures of single workers": server.by_worker,
        "response times by bound": server.by_time,
        "wait states": server.waits,
    }
    return (*missing, *(words for words, part in parts.items() if not part))
