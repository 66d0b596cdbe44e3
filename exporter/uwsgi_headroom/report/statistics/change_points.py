"""Finds the changes in a series by optimal partitioning: each segment has a line of its own.

B. Jackson et al., "An Algorithm for Optimal Partitioning of Data on an Interval", IEEE Signal Processing Letters 12
(2), 2005. The partition with the least sum of squared residuals, in units of the noise's variance, plus a penalty per
change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from uwsgi_headroom.report.statistics.local_time import Floats, Integers
from uwsgi_headroom.report.statistics.weekly import median_around

LEAST_LENGTH = 5
"""Fewest values of a segment."""

_LEAST_LENGTH_OF_LINE = 14
"""A shorter segment has a level, but no slope: a slope of a few days is noise."""

_REACH = 7
"""Days on each side of the running median from which the noise is estimated."""

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
