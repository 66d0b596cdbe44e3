"""Makes series of daily peaks with known answers."""

from collections.abc import Callable, Collection, Sequence
from datetime import date
from math import sqrt
from random import Random
from typing import NamedTuple

MONDAY = date(2026, 1, 5).toordinal()
WEEK = (1.05, 1.1, 1.08, 1.06, 0.98, 0.55, 0.5)
"""A weekly pattern, Monday first."""

Level = Callable[[int], float]


class Series(NamedTuple):
    """Ordinals of days, and their peaks."""

    days: Sequence[int]
    peaks: Sequence[float]


def series(
    level: Level,
    days: int,
    *,
    seed: int = 0,
    noise: float = 0.05,
    correlation: float = 0.0,
    week: Sequence[float] = WEEK,
) -> Series:
    """Peaks of level(0..days-1) times a weekly pattern, times noise of a standard deviation as a share of the level.

    correlation: of the noise of neighbouring days, an AR(1) process."""
    random, state, peaks = Random(seed), 0.0, []
    for day in range(-30, days):
        state = correlation * state + sqrt(1 - correlation**2) * random.gauss(0, 1)
        if day >= 0:
            peaks.append(max(0.0, level(day) * week[day % 7] / (sum(week) / 7) * (1 + noise * state)))
    return Series(range(MONDAY, MONDAY + days), peaks)


def without(known: Series, gone: Collection[int]) -> Series:
    """The same without the days at these places."""
    kept = [place for place in range(len(known.days)) if place not in gone]
    return Series([known.days[place] for place in kept], [known.peaks[place] for place in kept])


def scaled(known: Series, places: Collection[int], factor: float) -> Series:
    """The same with the days at these places times a factor."""
    peaks = [factor * peak if place in places else peak for place, peak in enumerate(known.peaks)]
    return Series(known.days, peaks)


def flat(_day: int) -> float:
    """A level of 100."""
    return 100.0


def line(per_day: float) -> Level:
    """100 on the first day, plus so much per day."""
    return lambda day: 100.0 + per_day * day


def step(at: int, factor: float) -> Level:
    """A level of 100 with a step."""
    return lambda day: 100.0 * (factor if day >= at else 1.0)
