"""Daily peaks, their weekly pattern, their trend, and the day on which they reach a limit.

P. K. Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", Journal of the American Statistical
Association 63, 1968. The slope is the median of the slopes between all pairs of days, so a few unusual days, such as
holidays, count little; its interval is that of Kendall's rank correlation, widened for the correlation of neighbouring
days. A change of level in a step looks like growth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import accumulate, chain, combinations
from statistics import fmean, median
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from msgspec import Struct

from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.report.quarters import STEP, Absent

LEAST_COVERAGE = 0.9
"""Share of the quarters in the peak hours that must be known, or the day is left out."""

_PEAKS_IN_PEAK_HOURS = 0.9
"""Share of the days whose peak falls in the peak hours."""

_LEAST_DAYS = 7
"""Fewest days from which the peak hours can be known."""

_IN_AN_HOUR = 4
_ALL_HOURS = tuple(range(24))


class DailyPeaks(Struct, frozen=True, kw_only=True):
    """The peak of each day that has one. days: ordinals (`datetime.date.fromordinal`); times: end of the quarter with
    the peak. left_out: days with too little data; missing: without any, between others. peak_hours: those of the local
    clock in which peaks usually fall; all 24 if there are too few days to know."""

    days: Sequence[int]
    peaks: Sequence[float]
    times: Sequence[float]
    left_out: int = 0
    missing: int = 0
    peak_hours: Sequence[int] = _ALL_HOURS


class _Day(Struct):
    """What is known of a day: quarters by hour, and the largest value with its time and hour."""

    hours: Counter[int]
    peak: float
    time: float
    peak_hour: int

    def covers(self, hours: Sequence[int]) -> bool:
        # Where the clock is set forward, an hour is missing, and where it is set back, one has eight quarters.
        known = sum(min(_IN_AN_HOUR, self.hours[hour]) for hour in hours)
        return known >= LEAST_COVERAGE * _IN_AN_HOUR * len(hours)


def daily_peaks(load: Mapping[float, float], zone: ZoneInfo) -> DailyPeaks:
    """The largest quarter of each local day. load: by the end of the quarter (epoch seconds), in the order of time.
    Days with less than LEAST_COVERAGE of their peak hours are left out; there may be no days at all."""
    days: dict[int, _Day] = {}
    for time, value in load.items():
        start = datetime.fromtimestamp(time - STEP, zone)
        day = days.setdefault(start.toordinal(), _Day(Counter(), -1.0, time, start.hour))
        day.hours[start.hour] += 1
        if value > day.peak:
            day.peak, day.time, day.peak_hour = value, time, start.hour
    hours = _find_peak_hours(list(days.values()))
    kept = {number: day for number, day in days.items() if day.covers(hours)}
    return DailyPeaks(
        days=list(kept),
        peaks=[day.peak for day in kept.values()],
        times=[day.time for day in kept.values()],
        left_out=len(days) - len(kept),
        missing=_span(days) - len(days),
        peak_hours=hours,
    )


def _span(days: Collection[int]) -> int:
    return max(days, default=0) - min(days, default=1) + 1


def _find_peak_hours(days: Sequence[_Day]) -> Sequence[int]:
    """The fewest hours that have most of the peaks of complete days; all, if too few days are complete.

    A server that is switched off at night has no complete days, so complete means: of the hours usually known.
    """
    usual = [hour for hour in _ALL_HOURS if days and 2 * median(day.hours[hour] for day in days) >= _IN_AN_HOUR]
    peaks = [day.peak_hour for day in days if day.covers(usual)]
    if len(peaks) < _LEAST_DAYS or not usual:
        return _ALL_HOURS
    common = Counter(sorted(peaks)).most_common()
    covered = accumulate((count for _, count in common), initial=0)
    least = _PEAKS_IN_PEAK_HOURS * len(peaks)
    return sorted(hour for (hour, _), before in zip(common, covered, strict=False) if before < least)


Detail = Literal["none", "weekend", "weekday"]

_LEAST_WEEKS_BY_WEEKDAY, _LEAST_WEEKS_BY_WEEKEND = 4, 2

_LEAST_DAYS_AROUND = 5
"""Of the seven days around a day."""

_LEAST_FACTOR = 0.01
"""A day of the week without load has no less, so that a level can be computed from it."""


class WeeklyPattern(Struct, frozen=True):
    """factors: seven, Monday first, with mean 1; a day's peak is its level times its factor. detail: one for each
    weekday, two for week and weekend, or none if the history is too short."""

    factors: Sequence[float]
    detail: Detail

    @property
    def parameters(self) -> int:
        """The number of factors that were estimated and are free, as their mean is 1."""
        return {"none": 0, "weekend": 1, "weekday": 6}[self.detail]

    def of(self, day: int) -> float:
        return self.factors[weekday_of(day)]


def weekday_of(day: int) -> int:
    """The day of the week of an ordinal; 0 is Monday."""
    return (day - 1) % 7


def weekly_pattern(days: Sequence[int], peaks: Sequence[float]) -> WeeklyPattern:
    """Median, by day of the week, of each peak over the median of the seven days around it.

    The running median follows steps and growth, and the median over weeks is not moved by single days. days: ordinals,
    increasing.
    """
    ratios: list[list[float]] = [[] for _ in range(7)]
    for day, peak, around in zip(days, peaks, _medians_around(days, peaks), strict=True):
        if around:
            ratios[weekday_of(day)].append(peak / around)
    week, weekend = list(chain(*ratios[:5])), list(chain(*ratios[5:]))
    if min(map(len, ratios)) >= _LEAST_WEEKS_BY_WEEKDAY:
        return _scaled([median(each) for each in ratios], "weekday")
    if len(week) >= 5 * _LEAST_WEEKS_BY_WEEKEND and len(weekend) >= 2 * _LEAST_WEEKS_BY_WEEKEND:
        return _scaled([median(week)] * 5 + [median(weekend)] * 2, "weekend")
    return WeeklyPattern([1.0] * 7, "none")


def _scaled(factors: Sequence[float], detail: Detail) -> WeeklyPattern:
    raised = [max(factor, _LEAST_FACTOR) for factor in factors]
    return WeeklyPattern([factor / fmean(raised) for factor in raised], detail)


def _medians_around(days: Sequence[int], peaks: Sequence[float]) -> list[float | None]:
    """The median of the seven days around each day, which at both ends are the first and the last seven; None where
    fewer than _LEAST_DAYS_AROUND are known."""
    known = dict(zip(days, peaks, strict=True))
    found: list[float | None] = []
    for day in days:
        first = max(days[0], min(day - 3, days[-1] - 6))
        around = [known[each] for each in range(first, first + 7) if each in known]
        found.append(median(around) if len(around) >= _LEAST_DAYS_AROUND else None)
    return found


LEAST_DAYS = 21
"""Shortest history, in days, from which a forecast is made."""

LEAST_PEAKS = 14
"""Fewest days with a known peak within it."""

_NORMAL = 1.96
"""Standard errors on each side of an interval of 95 %. Growth is reported if that does not contain 0."""

_TAIL = 0.05
"""Share of the days' deviations above the forecast's interval, and below it."""

_LEAST_LEVEL = 0.01
"""Share of the median level below which a line that declines is not followed."""

_MOST_CORRELATION = 0.8
_LEAST_NEIGHBOURS = 5
_RECENT_DAYS = 7
_MONTH = 30

Direction = Literal["growth", "decline", "none"]


class Ahead(NamedTuple):
    """A day ahead, and its peak with the interval that should contain nine of ten days."""

    day: date
    expected: float
    low: float
    high: float


class Forecast(Struct, frozen=True, kw_only=True):
    """Expected daily peaks after the last day of the data. direction: none if the interval of the slope contains 0: no
    growth is expected. per_month: growth in 30 days as a share of the level, -1 at least, with its interval (95 %).
    level: expected now, on the busiest day of a week. fitted: the trend of the past, weekly pattern included. ahead: at
    most as many days as there are of history. reached: in the last seven days of the data; then it is not dated.
    crossing: the first day on which the limit is expected to be reached; earliest, latest: the same of the interval's
    upper and lower end; None: not within the days ahead."""

    direction: Direction
    per_month: float
    per_month_low: float
    per_month_high: float
    level: float
    fitted: Sequence[tuple[date, float]]
    ahead: Sequence[Ahead]
    reached: bool
    crossing: date | None
    earliest: date | None
    latest: date | None


def forecast_peaks(days: Sequence[int], peaks: Sequence[float], limit: float, horizon: int = 365) -> Forecast | Absent:
    """Forecast daily peaks and the day on which they reach a limit, in the unit of the peaks, or say how much history
    is missing. days: ordinals, increasing; horizon: in days, at most."""
    history = _span(days)
    if history < LEAST_DAYS:
        return Absent(reason=f"A forecast needs {LEAST_DAYS} days of daily peaks, and this range has {history}.")
    if (known := len(days)) < LEAST_PEAKS:
        return Absent(reason=f"A forecast needs {LEAST_PEAKS} days with a known peak, and {history} days have {known}.")
    pattern = weekly_pattern(days, peaks)
    line = _fit(days, [peak / pattern.of(day) for day, peak in zip(days, peaks, strict=True)], pattern.parameters)
    last = days[-1]
    ahead = list(_look_ahead(line, pattern, range(last + 1, last + 1 + min(horizon, history))))
    recent = [peak for day, peak in zip(days, peaks, strict=True) if day > last - _RECENT_DAYS]
    reached, level = max(recent) >= limit, line.at(last, line.expected_slope)
    month, low, high = (max(-1.0, _MONTH * slope / (level or math.inf)) for slope in (line.slope, line.low, line.high))

    def first(part: Callable[[Ahead], float]) -> date | None:
        return next((each.day for each in ahead if part(each) >= limit and not reached), None)

    return Forecast(
        direction=line.direction,
        per_month=month,
        per_month_low=low,
        per_month_high=high,
        level=level * max(pattern.factors),
        fitted=[(date.fromordinal(day), line.at(day, line.expected_slope) * pattern.of(day)) for day in days],
        ahead=ahead,
        reached=reached,
        crossing=first(lambda each: each.expected),
        earliest=first(lambda each: each.high),
        latest=first(lambda each: each.low),
    )


class _Line(Struct, frozen=True):
    """level + slope * (day - middle), but not below the level `least`. low, high: the interval of the slope; ratios:
    observed level over the line's, of each day, ascending."""

    middle: float
    level: float
    slope: float
    low: float
    high: float
    ratios: Sequence[float]
    least: float

    @property
    def direction(self) -> Direction:
        if self.low > 0:
            return "growth"
        return "decline" if self.high < 0 else "none"

    @property
    def expected_slope(self) -> float:
        return self.slope * (self.direction != "none")

    def at(self, day: int, slope: float) -> float:
        """The level at a day, with another slope as if the line had that."""
        return max(self.level + slope * (day - self.middle), self.least)


def _look_ahead(line: _Line, pattern: WeeklyPattern, days: Sequence[int]) -> Iterator[Ahead]:
    low, high = min(1.0, percentile(line.ratios, _TAIL)), max(1.0, percentile(line.ratios, 1 - _TAIL))
    for day in days:
        factor = pattern.of(day)
        expected = line.at(day, line.expected_slope) * factor
        lower, upper = line.at(day, line.low) * low * factor, line.at(day, line.high) * high * factor
        yield Ahead(date.fromordinal(day), expected, min(lower, expected), max(upper, expected))


def _fit(days: Sequence[int], levels: Sequence[float], fitted: int) -> _Line:
    """The line of levels without weekly pattern. fitted: parameters of the pattern that was taken out, by which the
    levels vary less than the truth."""
    known = len(days)
    pairs = combinations(zip(days, levels, strict=True), 2)
    slopes = sorted((after - before) / (later - earlier) for (earlier, before), (later, after) in pairs)
    slope, middle = median(slopes), median(days)
    level = median(each - slope * (day - middle) for day, each in zip(days, levels, strict=True))
    residuals = [each - level - slope * (day - middle) for day, each in zip(days, levels, strict=True)]
    widening = math.sqrt(_inflation(days, residuals) * known / max(known - fitted, 1))
    ranks = _NORMAL * widening * math.sqrt(known * (known - 1) * (2 * known + 5) / 18)
    low, high = (min(max(0, int((len(slopes) + sign * ranks) / 2)), len(slopes) - 1) for sign in (-1, 1))
    least = _LEAST_LEVEL * median(levels)
    expected = [max(each - residual, least) for each, residual in zip(levels, residuals, strict=True)]
    ratios = sorted(each / line if line > 0 else 1.0 for each, line in zip(levels, expected, strict=True))
    return _Line(middle, level, slope, slopes[low], slopes[high], ratios, least)


def _inflation(days: Sequence[int], residuals: Sequence[float]) -> float:
    """By how much correlation r of neighbouring days raises the variance of a mean: (1 + r) / (1 - r), at least 1, as
    of an AR(1) process."""
    neighbours = [place for place in range(len(days) - 1) if days[place + 1] == days[place] + 1]
    power = fmean(residual**2 for residual in residuals)
    if len(neighbours) < _LEAST_NEIGHBOURS or power <= 0:
        return 1.0
    correlation = fmean(residuals[place] * residuals[place + 1] for place in neighbours) / power
    # M. G. Kendall, "Note on Bias in the Estimation of Autocorrelation", Biometrika 41, 1954.
    unbiased = correlation + (1 + 4 * correlation) / len(residuals)
    bounded = min(max(unbiased, 0.0), _MOST_CORRELATION)
    return (1 + bounded) / (1 - bounded)
