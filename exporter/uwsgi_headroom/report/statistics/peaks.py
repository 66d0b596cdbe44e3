"""Daily peaks: the largest quarter of an hour of each local day."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from uwsgi_headroom.report.statistics.local_time import Floats, Integers

LEAST_COVERAGE = 0.9
"""Share of the quarters in the peak hours that must be known, or the day is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyPeaks:
    """The peak of each day that has one.

    days: ordinals of local days (`datetime.date.fromordinal`), increasing. peaks: in the unit of the values.
    times: end of the quarter with the peak, epoch seconds. All three have one value per day.
    left_out: days with some data, but too little to know the peak. missing: days without any data, between the first
    day and the last day with some. peak_hours: the hours of the local clock in which peaks usually fall; all 24 if there
    are too few days to know.
    """

    days: Integers
    peaks: Floats
    times: Floats
    left_out: int
    missing: int
    peak_hours: tuple[int, ...]
    zone: ZoneInfo


def daily_peaks(time: Floats, values: Floats, zone: ZoneInfo) -> DailyPeaks:
    """The largest known quarter of each local day.

    time: ends of quarters, epoch seconds, strictly increasing. values: one per quarter; nan, infinite and negative ones
    (a counter that went back) are not known. Days with less than LEAST_COVERAGE of their peak hours are left out. No
    days at all is a result with empty arrays. Raises ValueError if the lengths differ or `time` does not increase.
    """
    raise NotImplementedError
