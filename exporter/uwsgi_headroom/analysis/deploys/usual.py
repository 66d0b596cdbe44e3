"""Finds what is usual at an hour: the time of a request at the same hour of the days before. It judges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from uwsgi_headroom.analysis.deploys.judgement import Batch, Judgement
from uwsgi_headroom.analysis.deploys.spread import from_normal

DAYS = 14
"""Days whose same hour is usual: Prometheus keeps 15 unless it is set otherwise."""

FEWEST = 100
"""Requests in the hour of a day."""

_FEWEST_DAYS = 3

_ERRORS = 1.96
"""Standard errors of a day's difference from the mean of the others that are usual, with as many days as one likes. The
alert's are more: it looks at each hour of each day."""


class UsualTime(NamedTuple):
    """Seconds of a mean request at the same hour of other days, and of two of these. whole: whether all are known."""

    days: int
    mean: float
    low: float
    high: float
    whole: bool
    margin: float
    """How far a day without a change is from `mean`, nineteen times of twenty."""


def find_usual(days: Sequence[Sequence[Batch]]) -> UsualTime | None:
    """What is usual, from the batches of the same hour, yesterday's first; None with too few days."""
    means, last = [], 0
    for day, batches in enumerate(days, 1):
        pairs = [(batch.time, batch.requests) for batch in batches if batch.time is not None]
        requests = fsum([requests for _, requests in pairs])
        if requests >= FEWEST:
            means.append(fsum([time for time, _ in pairs]) / requests)
            last = day
    if len(means) < _FEWEST_DAYS:
        return None
    number = len(means)
    margin = from_normal(_ERRORS, number - 1) * sqrt(1 + 1 / number) * stdev(means)
    return UsualTime(number, fmean(means), min(means), max(means), last == number, margin)


def is_usual(usual: UsualTime, judgement: Judgement) -> bool:
    """Whether a change of the time of a request leads to what is usual now, from what is not."""
    change = judgement.of("time")
    if change is None or change.state == "unclear":
        return False
    before, after = change.before - usual.mean, change.after - usual.mean
    if change.state == "better":
        before, after = -before, -after
    return before < -usual.margin and after <= usual.margin
