"""Makes series of daily peaks with known answers."""

from collections.abc import Callable
from datetime import date
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from uwsgi_headroom.report.statistics.peaks import DailyPeaks

UTC = ZoneInfo("UTC")
MONDAY = date(2026, 1, 5).toordinal()
WEEK = np.array([1.05, 1.1, 1.08, 1.06, 0.98, 0.55, 0.5])
"""A weekly pattern, Monday first."""


def series(
    level: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    days: int,
    *,
    seed: int = 0,
    noise: float = 0.05,
    correlation: float = 0.0,
    week: NDArray[np.float64] = WEEK,
) -> DailyPeaks:
    """Peaks of level(0..days-1) times a weekly pattern, times noise of a standard deviation as a share of the level.

    correlation: of the noise of neighbouring days, an AR(1) process."""
    place = np.arange(days)
    random = np.random.default_rng(seed)
    shocks = random.normal(size=days + 30)
    state = np.zeros(days + 30)
    for day in range(1, days + 30):
        state[day] = correlation * state[day - 1] + np.sqrt(1 - correlation**2) * shocks[day]
    values = level(place) * week[place % 7] / week.mean() * (1 + noise * state[30:])
    return peaks_of(MONDAY + place, np.maximum(values, 0.0))


def peaks_of(days: NDArray[np.int64], values: NDArray[np.float64], zone: ZoneInfo = UTC) -> DailyPeaks:
    """Peaks at noon UTC."""
    return DailyPeaks(
        days=days,
        peaks=values,
        times=(days - date(1970, 1, 1).toordinal()) * 86400.0 + 43200.0,
        left_out=0,
        missing=int(days[-1] - days[0]) + 1 - len(days) if len(days) else 0,
        peak_hours=tuple(range(24)),
        zone=zone,
    )


def without(peaks: DailyPeaks, gone: NDArray[np.int64]) -> DailyPeaks:
    """The same without the days at these places."""
    return peaks_of(np.delete(peaks.days, gone), np.delete(peaks.peaks, gone), peaks.zone)


def scaled(peaks: DailyPeaks, places: slice, factor: float) -> DailyPeaks:
    """The same with the days at these places times a factor."""
    values = peaks.peaks.copy()
    values[places] *= factor
    return peaks_of(peaks.days, values, peaks.zone)


def flat(days: NDArray[np.int64]) -> NDArray[np.float64]:
    """A level of 100."""
    return np.full(len(days), 100.0)


def line(per_day: float) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """100 on the first day, plus so much per day."""
    return lambda days: 100.0 + per_day * days


def step(at: int, factor: float, per_day: float = 0.0) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """A line with a step."""
    return lambda days: (100.0 + per_day * days) * np.where(days >= at, factor, 1.0)
