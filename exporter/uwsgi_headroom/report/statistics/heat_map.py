"""Means by day of the week and hour of the day."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from uwsgi_headroom.report.statistics.local_time import Floats, Integers


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
    raise NotImplementedError
