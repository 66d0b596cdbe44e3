"""Regimes: spans of days between which the level of daily peaks changed in a step (a deploy, traffic moved).

Changes are found by optimal partitioning, in which each segment has a line of its own: the partition with the least sum
of squared residuals, in units of the noise's variance, plus a penalty per change. B. Jackson et al., "An Algorithm for
Optimal Partitioning of Data on an Interval", IEEE Signal Processing Letters 12 (2), 2005.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from uwsgi_headroom.report.columns import STEP, EventMark
from uwsgi_headroom.report.statistics.local_time import Floats, Integers, to_local_time
from uwsgi_headroom.report.statistics.peaks import DailyPeaks, WeeklyPattern, median_around, weekly_pattern

LEAST_LENGTH = 5
"""Fewest values of a segment."""

_LEAST_LENGTH_OF_LINE = 14
"""A shorter segment has a level, but no slope: a slope of a few days is noise."""

_REACH = 7
"""Days on each side of the running median from which noise and outliers are measured."""

_QUARTILES = np.array([0.5, 0.75])
_MOST_CORRELATION = 0.8

_FITTED = 9
"""Values by which a weekly pattern and a running median make residuals smaller than the noise."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Values start..end (end excluded), with the line level + slope * (day - middle)."""

    start: int
    end: int
    middle: float
    level: float
    slope: float

    def at(self, day: float) -> float:
        """The line's value."""
        return self.level + self.slope * (day - self.middle)


class Partition:
    """Segments of one series. noise: the standard deviation that a change must stand out from."""

    def __init__(self, days: Integers, values: Floats, noise: float) -> None:
        self._days = days.astype(np.float64) - days[0]
        self._first = float(days[0])
        # Sums of centred values lose no digits to the level.
        self._centre = float(np.median(values))
        centred = (values - self._centre) / noise
        self._noise = noise
        x = self._days
        columns = (np.ones(len(x)), x, x * x, centred, centred * centred, x * centred)
        self._sums = np.vstack([np.concatenate(([0.0], np.cumsum(column))) for column in columns])

    def cost(self, *spans: tuple[int, int]) -> float:
        """The squared residuals around one line through all the spans (start, end), in variances of the noise."""
        return float(_squared_residuals(sum(self._sums[:, end] - self._sums[:, start] for start, end in spans)))

    def best(self, penalties: Floats) -> list[Segment]:
        """The segments with the least cost. penalties: of a change just before each value."""
        length = len(self._days)
        least = np.full(length + 1, np.inf)
        least[0] = 0.0
        previous = np.zeros(length + 1, dtype=np.int64)
        paid = np.concatenate(([0.0], penalties[1:]))
        for end in range(LEAST_LENGTH, length + 1):
            starts = np.arange(0, end - LEAST_LENGTH + 1)
            costs = _squared_residuals(self._sums[:, end][:, None] - self._sums[:, starts])
            totals = least[starts] + costs + paid[starts]
            place = int(np.argmin(totals))
            least[end], previous[end] = totals[place], place
        ends = [length]
        while ends[-1] > 0:
            ends.append(int(previous[ends[-1]]))
        return [self.segment(start, end) for end, start in zip(ends[-2::-1], ends[:0:-1], strict=True)]

    def segment(self, start: int, end: int) -> Segment:
        """The segment of the values start..end with its line."""
        n, x, xx, y, _, xy = self._sums[:, end] - self._sums[:, start]
        slope = (xy - x * y / n) / (xx - x * x / n) if n >= _LEAST_LENGTH_OF_LINE else 0.0
        return Segment(start, end, self._first + x / n, self._centre + self._noise * y / n, float(self._noise * slope))


def _squared_residuals(sums: Floats) -> Floats:
    """Around a line or, of few values, around their mean. sums: of 1, x, x², y, y², x y."""
    n, x, xx, y, yy, xy = sums
    around_mean = yy - y * y / n
    spread, together = xx - x * x / n, xy - x * y / n
    has_slope = n >= _LEAST_LENGTH_OF_LINE
    by_slope = np.where(has_slope, together * together / np.where(has_slope, spread, 1.0), 0.0)
    return np.asarray(np.maximum(around_mean - by_slope, 0.0))


def estimate_noise(days: Integers, values: Floats, least: float) -> float:
    """The standard deviation of a mean of values, per value: more than that of a value, if neighbours are correlated.

    From the distances to the running median, by their median or their third quartile, so that steps and outliers count
    little; the quartile is for series of which half the values are equal, as at a limit. Times sqrt((1 + r) / (1 - r))
    for the correlation r of neighbours, the long-run variance of an AR(1) process. At least `least`, so that a constant
    has noise, too.
    """
    residuals = values - median_around(days, values, _REACH)
    distances = np.quantile(np.abs(residuals), _QUARTILES)
    size = float(np.max(distances / norm.ppf((1 + _QUARTILES) / 2)))
    size *= math.sqrt(len(days) / max(len(days) - _FITTED, 1))
    if size <= least:
        return least
    clipped = np.clip(residuals, -3 * size, 3 * size)
    return size * math.sqrt(inflation(days, clipped))


def inflation(days: Integers, residuals: Floats) -> float:
    """By how much correlation of neighbouring days raises the variance of a mean: (1 + r) / (1 - r), at least 1."""
    neighbours = np.flatnonzero(np.diff(days) == 1)
    power = float(np.mean(residuals**2))
    if len(neighbours) < LEAST_LENGTH or power <= 0:
        return 1.0
    correlation = float(np.mean(residuals[neighbours] * residuals[neighbours + 1])) / power
    # M. G. Kendall, "Note on Bias in the Estimation of Autocorrelation", Biometrika 41, 1954.
    unbiased = correlation + (1 + 4 * correlation) / len(residuals)
    bounded = min(max(unbiased, 0.0), _MOST_CORRELATION)
    return (1 + bounded) / (1 - bounded)


LONGEST_EXCEPTION = 21
"""Days. A level that is back after fewer days was an exception."""

PENALTY = 4.0
"""Of a change, times the logarithm of the number of days, in variances of the noise. Chosen by simulation: a step is
found in fewer than 1 of 100 flat series, in 2 of 100 with growth, and in 3 of 100 where the noise of neighbouring days
has a correlation of 0.4. A step of 15 % amid noise of 5 % is found in 9 of 10."""

_WITH_EVENT = 0.5
"""Of the penalty, where an event explains the change."""

_MOST_EVENT_DAYS = 0.1
"""Share of the days with events above which events explain nothing."""

_OUTLIER = 5.0
"""In standard deviations of the noise, from the running median."""

_IDLE = 0.01
"""Share of the median level up to which a day is idle: it has no noise to learn from, and no logarithm."""

_LEAST_NOISE = 0.01
"""Share of the level. Changes that are small against it are of no interest, even where there is hardly any noise."""

_LEAST_STEP = 0.05
"""A smaller jump between two lines is no step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """Consecutive days without a step.

    first, last: ordinals of local days, both included. known: days with a peak. level: the median peak in the unit of
    the values, without the weekly pattern. change: the step at the regime's first day, as a share of the level just
    before (0.5: half as much again); inf from no load; nan for the first regime. bend: there is no step, but growth
    changed. event: the event that explains the change: the last one on the regime's first day, else on the day before;
    None if there is none, or if there are so many events that they explain nothing.
    """

    first: int
    last: int
    known: int
    level: float
    change: float
    bend: bool = False
    event: EventMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Regimes:
    """spans: the regimes, oldest first; empty only without any peak. exceptions: days (ordinals) that are outside of
    what is usual in their regime, as holidays or a flood of requests are. pattern: the weekly pattern."""

    spans: tuple[Regime, ...]
    exceptions: tuple[int, ...]
    pattern: WeeklyPattern

    @property
    def present(self) -> Regime | None:
        return self.spans[-1] if self.spans else None


def find_regimes(peaks: DailyPeaks, events: Sequence[EventMark] = ()) -> Regimes:
    """Find the steps in daily peaks.

    Growth is no step: each segment has its own slope. The search is also made on logarithms, in which exponential
    growth is a line; fewer regimes, then fewer exceptions, are the better explanation. An event makes a step on its day
    or the day after more likely. Levels that come back within LONGEST_EXCEPTION days are exceptions, not regimes.
    """
    pattern = weekly_pattern(peaks.days, peaks.peaks)
    if not len(peaks.days):
        return Regimes(spans=(), exceptions=(), pattern=pattern)
    levels = peaks.peaks / pattern.of(peaks.days)
    by_day = _events_by_day(peaks, events)
    found = _search(peaks.days, levels, by_day)
    if (len(found.segments) > 1 or len(found.used) < len(levels)) and levels.max() > 0:
        found = min(found, _search(peaks.days, levels, by_day, logarithmic=True), key=_complexity)
    return _describe(peaks.days, levels, pattern, found, by_day)


@dataclass(frozen=True, slots=True)
class _Found:
    """used: indices of the days that are no exceptions; the segments are of these. logarithmic: of logarithms.
    idle: the level that counts as no load."""

    used: Integers
    segments: list[Segment]
    logarithmic: bool
    idle: float

    def change(self, place: int, day: int) -> float:
        """The step from the segment before to that at `place`, as a share of the level before."""
        before, after = self.segments[place - 1].at(day), self.segments[place].at(day)
        if self.logarithmic:
            before, after = math.exp(before), math.exp(after)
        return float((after - before) / before) if before > 2 * self.idle else math.inf


def _complexity(found: _Found) -> tuple[int, int]:
    """Segments, then days that are in none."""
    return len(found.segments), -len(found.used)


def _search(days: Integers, levels: Floats, by_day: dict[int, EventMark], *, logarithmic: bool = False) -> _Found:
    idle = _IDLE * float(np.median(levels[levels > 0])) if np.any(levels > 0) else 0.0
    values = np.log(np.maximum(levels, idle)) if logarithmic else levels
    busy = levels > idle if idle else levels == 0
    least = _LEAST_NOISE * (1.0 if logarithmic else float(np.median(levels[busy])))
    noise = estimate_noise(days[busy], values[busy], least or 1.0)
    distance = (values - median_around(days, values, _REACH)) / noise
    used = np.flatnonzero(~_short_outliers(distance))
    if len(used) < LEAST_LENGTH:
        used = np.arange(len(days))
    while True:
        partition = Partition(days[used], values[used], noise)
        penalties = _penalties(days[used], by_day)
        segments = partition.best(penalties)
        exception = _first_exception(days[used], partition, segments, penalties)
        if exception is None:
            return _Found(used, segments, logarithmic, idle)
        used = np.delete(used, exception)


def _short_outliers(distance: Floats) -> NDArray[np.bool_]:
    """Outliers that do not last. Days on the same side that follow one another may be a level, and are searched.

    distance: from what is usual, in standard deviations. A day half as far out continues a run of outliers.
    """
    side = np.sign(distance) * (np.abs(distance) > _OUTLIER / 2)
    runs = np.split(np.abs(distance), np.flatnonzero(np.diff(side)) + 1)
    is_short = [len(run) < LEAST_LENGTH and run.max() > _OUTLIER for run in runs]
    return np.repeat(is_short, [len(run) for run in runs])


def _first_exception(days: Integers, partition: Partition, segments: list[Segment], penalties: Floats) -> slice | None:
    """Short segments between two that are one line."""
    for place, before in enumerate(segments):
        for after in segments[place + 2 :]:
            if days[after.start] - days[before.end] >= LONGEST_EXCEPTION:
                break
            left, right = (before.start, before.end), (after.start, after.end)
            apart = partition.cost(left) + partition.cost(right) + float(penalties[after.start])
            if partition.cost(left, right) <= apart:
                return slice(before.end, after.start)
    return None


def _penalties(days: Integers, by_day: dict[int, EventMark]) -> Floats:
    explained = np.array([_explanation(int(day), by_day) is not None for day in days])
    return np.where(explained, _WITH_EVENT, 1.0) * PENALTY * math.log(len(days) + 1)


def _explanation(day: int, by_day: dict[int, EventMark]) -> EventMark | None:
    return by_day.get(day) or by_day.get(day - 1)


def _events_by_day(peaks: DailyPeaks, events: Sequence[EventMark]) -> dict[int, EventMark]:
    """The last event of each day; empty, if so many days have events that they explain nothing."""
    ordered = sorted(events, key=lambda event: event.time)
    times = sorted({event.time for event in ordered})
    if not times:
        return {}
    days = dict(zip(times, to_local_time(np.array(times) + STEP, peaks.zone).days, strict=True))
    by_day = {int(days[event.time]): event for event in ordered}
    span = int(peaks.days[-1] - peaks.days[0]) + 1
    within = sum(int(peaks.days[0]) <= day <= int(peaks.days[-1]) for day in by_day)
    return by_day if within <= max(_MOST_EVENT_DAYS * span, 1) else {}


def _describe(
    days: Integers, levels: Floats, pattern: WeeklyPattern, found: _Found, by_day: dict[int, EventMark]
) -> Regimes:
    used_days = days[found.used]
    firsts = [int(days[0])] + [int(used_days[segment.start]) for segment in found.segments[1:]]
    lasts = [first - 1 for first in firsts[1:]] + [int(days[-1])]
    spans = []
    for place, (segment, first, last) in enumerate(zip(found.segments, firsts, lasts, strict=True)):
        used = found.used[segment.start : segment.end]
        change = found.change(place, first) if place else math.nan
        spans.append(
            Regime(
                first=first,
                last=last,
                known=len(used),
                level=float(np.median(levels[used])),
                change=change,
                bend=abs(change) < _LEAST_STEP,
                event=_explanation(first, by_day) if place else None,
            )
        )
    exceptions = np.setdiff1d(days, used_days)
    return Regimes(spans=tuple(spans), exceptions=tuple(int(day) for day in exceptions), pattern=pattern)
