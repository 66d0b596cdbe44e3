"""The weekly pattern of daily peaks: a factor for each day of the week."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from uwsgi_headroom.report.statistics.local_time import Floats, Integers, weekday_of

Detail = Literal["none", "weekend", "weekday"]

_LEAST_WEEKS_BY_WEEKDAY = 4

_LEAST_WEEKS_BY_WEEKEND = 2

_LEAST_DAYS_AROUND = 5
"""Of the seven days around a day."""

_LEAST_FACTOR = 0.01
"""A day of the week without load has no less, so that a level can be computed from it."""


@dataclass(frozen=True, slots=True)
class WeeklyPattern:
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
        """The factor of each day (ordinals)."""
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
