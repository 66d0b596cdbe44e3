"""Means by day of the week and hour of the day."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np

from uwsgi_headroom.report.statistics.local_time import Floats, Integers, require_same_length, to_local_time


@dataclass(frozen=True, slots=True)
class HeatMap:
    """values: shape (7, 24), Monday first, hours of the local clock; nan without data. counts: quarters of an hour in
    each."""

    values: Floats
    counts: Integers


def by_weekday_and_hour(time: Floats, values: Floats, zone: ZoneInfo, weights: Floats | None = None) -> HeatMap:
    """The weighted mean of the known values. time: ends of quarters, epoch seconds, strictly increasing. weights: for a
    mean over requests, requests per quarter; quarters with unknown or no weight are left out.

    Raises ValueError if lengths differ or `time` does not increase.
    """
    weights = np.ones(len(values)) if weights is None else weights
    require_same_length(time, values, weights)
    local = to_local_time(time, zone)
    used = np.isfinite(values) & np.isfinite(weights) & (weights > 0)
    cell = (local.weekdays * 24 + local.hours)[used]
    counts = np.bincount(cell, minlength=168)
    total = np.bincount(cell, weights=weights[used], minlength=168)
    weighted = np.bincount(cell, weights=(weights * values)[used], minlength=168)
    means = np.divide(weighted, total, out=np.full(168, np.nan), where=counts > 0)
    return HeatMap(means.reshape(7, 24), counts.reshape(7, 24))
