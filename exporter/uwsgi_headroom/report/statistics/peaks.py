"""Daily peaks, the largest quarter of an hour of each local day, and their weekly pattern: a factor for each day of the
week."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from zoneinfo import ZoneInfo

import numpy as np
from msgspec import Struct

from uwsgi_headroom.report.statistics.local_time import (
    Floats,
    Integers,
    quarters_between,
    require_increasing,
    require_same_length,
    to_local_time,
    weekday_of,
)

LEAST_COVERAGE = 0.9
"""Share of the quarters in the peak hours that must be known, or the day is left out."""

_PEAKS_IN_PEAK_HOURS = 0.9
"""Share of the days whose peak falls in the peak hours."""

_LEAST_DAYS = 7
"""Fewest days from which the peak hours can be known."""


class DailyPeaks(Struct, frozen=True, kw_only=True):
    """The peak of each day that has one.

    days: ordinals of local days (`datetime.date.fromordinal`), increasing. peaks: in the unit of the values.
    times: end of the quarter with the peak, epoch seconds. All three have one value per day.
    left_out: days with some data, but too little to know the peak. missing: days without any data, between the first
    day and the last day with some. peak_hours: the hours of the local clock in which peaks usually fall; all 24 if
    there are too few days to know.
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
    time, values = np.asarray(time, dtype=np.float64), np.asarray(values, dtype=np.float64)
    require_same_length(time, values)
    require_increasing(time)
    known = np.isfinite(values) & (values >= 0)
    time, values = time[known], values[known]
    local = to_local_time(time, zone)
    place = _place_of_peaks(local.days, values)
    days = local.days[place]
    if not len(days):
        return DailyPeaks(
            days=days, peaks=values, times=time, left_out=0, missing=0, peak_hours=tuple(range(24)), zone=zone
        )
    first, span = int(days[0]), int(days[-1] - days[0]) + 1
    present = _quarters(local.days - first, local.hours, span)
    whole = to_local_time(quarters_between(first, int(days[-1]), zone), zone)
    possible = _quarters(whole.days - first, whole.hours, span)
    hours = _peak_hours(present, possible, days - first, local.hours[place])
    covered = present[:, hours].sum(axis=1) >= LEAST_COVERAGE * possible[:, hours].sum(axis=1)
    kept = covered[days - first]
    return DailyPeaks(
        days=days[kept],
        peaks=values[place][kept],
        times=time[place][kept],
        left_out=int(np.count_nonzero(~kept)),
        missing=span - len(days),
        peak_hours=tuple(int(hour) for hour in hours),
        zone=zone,
    )


def _place_of_peaks(days: Integers, values: Floats) -> Integers:
    """The index of the largest value of each day; of equal ones the first."""
    order = np.lexsort((-values, days))
    _, starts = np.unique(days[order], return_index=True)
    return np.asarray(order[starts], dtype=np.int64)


def _quarters(days: Integers, hours: Integers, span: int) -> Integers:
    """The number of quarters by day and hour; shape (span, 24)."""
    return np.bincount(days * 24 + hours, minlength=span * 24).reshape(span, 24)


def _peak_hours(present: Integers, possible: Integers, days: Integers, hours_of_peaks: Integers) -> Integers:
    """The fewest hours that have most of the peaks of complete days; all, if too few days are complete.

    A server that is switched off at night has no complete days, so complete means: of the hours usually known.
    """
    usual = np.median(present[days] / np.maximum(possible[days], 1), axis=0) >= 0.5
    complete = present[:, usual].sum(axis=1) >= LEAST_COVERAGE * possible[:, usual].sum(axis=1)
    peaks = hours_of_peaks[complete[days]]
    if len(peaks) < _LEAST_DAYS or not usual.any():
        return np.arange(24)
    counts = np.bincount(peaks, minlength=24)
    order = np.argsort(-counts, kind="stable")
    needed = int(np.searchsorted(np.cumsum(counts[order]), _PEAKS_IN_PEAK_HOURS * len(peaks))) + 1
    return np.sort(order[:needed])


Detail = Literal["none", "weekend", "weekday"]

_LEAST_WEEKS_BY_WEEKDAY = 4

_LEAST_WEEKS_BY_WEEKEND = 2

_LEAST_DAYS_AROUND = 5
"""Of the seven days around a day."""

_LEAST_FACTOR = 0.01
"""A day of the week without load has no less, so that a level can be computed from it."""


class WeeklyPattern(Struct, frozen=True):
    """factors: seven, Monday first, with mean 1; a day's peak is its level times its factor. detail: "weekday" with a
    factor for each day of the week, "weekend" with one for Monday to Friday and one for Saturday and Sunday, "none" if
    the history is too short for either (all factors are 1). support: the fewest days that a factor is a median of."""

    factors: Floats
    detail: Detail
    support: int = 0

    @property
    def parameters(self) -> int:
        """The number of factors that were estimated and are free, as their mean is 1."""
        return {"none": 0, "weekend": 1, "weekday": 6}[self.detail]

    def of(self, days: Integers) -> Floats:
        return np.asarray(self.factors[weekday_of(days)])


def weekly_pattern(days: Integers, peaks: Floats) -> WeeklyPattern:
    """Median, by day of the week, of each peak over the median of the seven days around it.

    The running median follows steps and growth, and the median over weeks is not moved by single days, so the pattern
    can be estimated before regimes are known. days: ordinals, increasing.
    """
    around = median_around(days, peaks, 3, _LEAST_DAYS_AROUND)
    usable = around > 0
    ratios = peaks[usable] / around[usable]
    weekdays = weekday_of(days[usable])
    counts = np.bincount(weekdays, minlength=7)
    if counts.min() >= _LEAST_WEEKS_BY_WEEKDAY:
        return _scaled(
            [float(np.median(ratios[weekdays == weekday])) for weekday in range(7)], "weekday", counts.tolist()
        )
    is_weekend = weekdays >= 5
    if counts[:5].sum() >= 5 * _LEAST_WEEKS_BY_WEEKEND and counts[5:].sum() >= 2 * _LEAST_WEEKS_BY_WEEKEND:
        week, weekend = float(np.median(ratios[~is_weekend])), float(np.median(ratios[is_weekend]))
        return _scaled([week] * 5 + [weekend] * 2, "weekend", [counts[:5].sum(), counts[5:].sum()])
    return WeeklyPattern(np.ones(7), "none")


def _scaled(factors: list[float], detail: Detail, counts: Sequence[int]) -> WeeklyPattern:
    raised = np.maximum(factors, _LEAST_FACTOR)
    return WeeklyPattern(raised / raised.mean(), detail, int(min(counts)))


def median_around(days: Integers, values: Floats, reach: int, least: int = 1) -> Floats:
    """The median of the values within `reach` days of each day; nan where fewer than `least` are known.

    At both ends the window is moved inwards, so that it always spans 2 reach + 1 days.
    """
    if not len(days):
        return np.empty(0)
    span = int(days[-1] - days[0]) + 1
    grid = np.full(max(span, 2 * reach + 1), np.nan)
    grid[days - days[0]] = values
    windows = np.lib.stride_tricks.sliding_window_view(grid, 2 * reach + 1)
    place = np.clip(days - days[0] - reach, 0, len(windows) - 1)
    counts = np.count_nonzero(~np.isnan(windows), axis=1)
    medians = np.full(len(windows), np.nan)
    enough = counts >= least
    medians[enough] = np.nanmedian(windows[enough], axis=1)
    return np.asarray(medians[place])
