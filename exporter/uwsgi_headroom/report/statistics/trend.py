"""The trend of daily peaks: a line times a weekly pattern, its forecast, and the day on which it reaches a limit.

P. K. Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", Journal of the American Statistical
Association 63, 1968. The slope is the median of the slopes between all pairs of days, so a few unusual days, such as
holidays, count little; its interval is that of Kendall's rank correlation, widened for the correlation of neighbouring
days. A change of level in a step looks like growth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from msgspec import Struct

from uwsgi_headroom.report.statistics.local_time import Floats, Integers
from uwsgi_headroom.report.statistics.peaks import DailyPeaks, WeeklyPattern, weekly_pattern

LEAST_DAYS = 21
"""Shortest history, in days, from which a forecast is made."""

LEAST_PEAKS = 14
"""Fewest days with a known peak within it."""

_NORMAL = 1.96
"""Standard errors on each side of an interval of 95 %, that of the slope. Growth is reported only if the interval does
not contain 0."""

_TAIL = 0.05
"""Share of the days' deviations above the forecast's interval, and below it."""

_LEAST_LEVEL = 0.01
"""Share of the median level below which a line that declines is not followed."""

_MOST_CORRELATION = 0.8
_LEAST_NEIGHBOURS = 5
_RECENT_DAYS = 7
_MONTH = 30

Direction = Literal["growth", "decline", "none"]


class Forecast(Struct, frozen=True, kw_only=True):
    """Expected daily peaks after the last day of the data. Days are ordinals of local days.

    days, expected, lower, upper: the days ahead, and the peak of each with its interval, weekly pattern included.
    direction: "none" if the interval of the slope contains 0; `expected` then has no slope, but `lower` and `upper`
    have those of its ends. fitted_days, fitted: the trend of the past, weekly pattern included.
    per_month: growth in 30 days as a share of the present level; per_month_low, per_month_high: its interval (95 %).
    level: expected now, on the busiest day of a week. horizon_days: number of days ahead, never more than the history.
    reached: the limit was reached in the last seven days of the data; crossing, earliest and latest are then None.
    crossing, earliest, latest: the first day on which `expected`, `upper` and `lower` are at the limit; None: on none.
    notes: sentences for the reader.
    """

    days: Integers
    expected: Floats
    lower: Floats
    upper: Floats
    direction: Direction
    fitted_days: Integers
    fitted: Floats
    per_month: float
    per_month_low: float
    per_month_high: float
    level: float
    horizon_days: int
    reached: bool
    crossing: int | None
    earliest: int | None
    latest: int | None
    notes: tuple[str, ...]


def forecast_peaks(peaks: DailyPeaks, limit: float, horizon_days: int = 365) -> Forecast | str:
    """Forecast daily peaks and the day on which they reach a limit, in the unit of the peaks; or a sentence that says
    how much history is missing.

    horizon_days: at most, and never further ahead than the history is long. Raises ValueError if the limit or the
    horizon is not positive.
    """
    if not limit > 0 or horizon_days < 1:
        raise ValueError(f"a limit of {limit} in {horizon_days} days")
    days, known = peaks.days, len(peaks.days)
    history = int(days[-1] - days[0]) + 1 if known else 0
    if history < LEAST_DAYS:
        return f"A forecast needs {LEAST_DAYS} days of daily peaks, and this range has {history}."
    if known < LEAST_PEAKS:
        return f"A forecast needs {LEAST_PEAKS} days with a known peak, and {history} days have {known}."
    pattern = weekly_pattern(days, peaks.peaks)
    levels = peaks.peaks / pattern.of(days)
    line = _fit(days, levels, pattern.parameters)
    horizon, last = min(horizon_days, history), int(days[-1])
    ahead = last + 1 + np.arange(horizon)
    low, high = np.quantile(line.ratios, (_TAIL, 1 - _TAIL))
    expected = line.at(ahead, line.expected_slope) * pattern.of(ahead)
    lower = np.minimum(line.at(ahead, line.low) * min(low, 1.0) * pattern.of(ahead), expected)
    upper = np.maximum(line.at(ahead, line.high) * max(high, 1.0) * pattern.of(ahead), expected)
    reached = bool(np.any(peaks.peaks[days > last - _RECENT_DAYS] >= limit))
    crossing, earliest, latest = (None if reached else _first(ahead, each, limit) for each in (expected, upper, lower))
    level = float(line.at(last, line.expected_slope))
    month, month_low, month_high = (
        slope * _MONTH / level if level else 0.0 for slope in (line.slope, line.low, line.high)
    )
    return Forecast(
        days=ahead,
        expected=expected,
        lower=lower,
        upper=upper,
        direction=line.direction,
        fitted_days=days,
        fitted=line.at(days, line.expected_slope) * pattern.of(days),
        per_month=month,
        per_month_low=month_low,
        per_month_high=month_high,
        level=level * float(pattern.factors.max()),
        horizon_days=horizon,
        reached=reached,
        crossing=crossing,
        earliest=earliest,
        latest=latest,
        notes=tuple(_notes(pattern, horizon, horizon_days)),
    )


class _Line(Struct, frozen=True):
    """level + slope * (day - middle). low, high: the interval of the slope. ratios: observed level over the line's, of
    each day. least: the line is not followed below this level."""

    middle: float
    level: float
    slope: float
    low: float
    high: float
    ratios: Floats
    least: float

    @property
    def direction(self) -> Direction:
        if self.low > 0:
            return "growth"
        return "decline" if self.high < 0 else "none"

    @property
    def expected_slope(self) -> float:
        return 0.0 if self.direction == "none" else self.slope

    def at(self, days: Integers | int, slope: float) -> Floats:
        """The level at each day, with another slope as if the line had that."""
        return np.maximum(self.level + slope * (np.asarray(days) - self.middle), self.least)


def _fit(days: Integers, levels: Floats, fitted: int) -> _Line:
    """The line of levels without weekly pattern. fitted: parameters of the pattern that was taken out, by which the
    levels vary less than the truth."""
    known = len(days)
    before, after = np.triu_indices(known, 1)
    slopes = np.sort((levels[after] - levels[before]) / (days[after] - days[before]))
    slope, middle = float(np.median(slopes)), float(np.median(days))
    level = float(np.median(levels - slope * (days - middle)))
    residuals = levels - level - slope * (days - middle)
    widening = math.sqrt(_inflation(days, residuals) * known / max(known - fitted, 1))
    ranks = _NORMAL * widening * math.sqrt(known * (known - 1) * (2 * known + 5) / 18)
    ends = np.clip(((len(slopes) - ranks) / 2, (len(slopes) + ranks) / 2), 0, len(slopes) - 1).astype(np.int64)
    least = _LEAST_LEVEL * float(np.median(levels))
    expected = np.maximum(levels - residuals, least)
    ratios = np.divide(levels, expected, out=np.ones(known), where=expected > 0)
    return _Line(middle, level, slope, float(slopes[ends[0]]), float(slopes[ends[1]]), ratios, least)


def _inflation(days: Integers, residuals: Floats) -> float:
    """By how much correlation r of neighbouring days raises the variance of a mean: (1 + r) / (1 - r), at least 1, as
    of an AR(1) process."""
    neighbours = np.flatnonzero(np.diff(days) == 1)
    power = float(np.mean(residuals**2))
    if len(neighbours) < _LEAST_NEIGHBOURS or power <= 0:
        return 1.0
    correlation = float(np.mean(residuals[neighbours] * residuals[neighbours + 1])) / power
    # M. G. Kendall, "Note on Bias in the Estimation of Autocorrelation", Biometrika 41, 1954.
    unbiased = correlation + (1 + 4 * correlation) / len(residuals)
    bounded = min(max(unbiased, 0.0), _MOST_CORRELATION)
    return (1 + bounded) / (1 - bounded)


def _first(days: Integers, peaks: Floats, limit: float) -> int | None:
    place = np.flatnonzero(peaks >= limit)
    return int(days[place[0]]) if len(place) else None


def _notes(pattern: WeeklyPattern, horizon: int, asked: int) -> Iterator[str]:
    if horizon < asked:
        yield f"The forecast ends after {horizon} days, as it reaches no further ahead than its history is long."
    if pattern.detail == "none":
        yield "There is too little history for a weekly pattern."
