"""Projects a trend ahead, with a prediction interval by simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from uwsgi_headroom.report.statistics.local_time import Floats, Integers, weekday_of
from uwsgi_headroom.report.statistics.trend import Trend, Trends
from uwsgi_headroom.report.statistics.weekly import WeeklyPattern

_PATHS = 2000
_SEED = 17


@dataclass(frozen=True, slots=True)
class Projection:
    """One value per day ahead."""

    expected: Floats
    lower: Floats
    upper: Floats


def project(trends: Trends, days: Integers, pattern: WeeklyPattern, coverage: float) -> Projection:
    """The expected peak of each day with the interval that contains the peak with probability `coverage`.

    Each of _PATHS simulated futures draws a slope, a level, a weekly pattern and each day's deviation. Slope and level
    are drawn from Student's t distribution with their standard errors; the two are independent, as the level is that of
    the middle of the history. Deviations are drawn from those of the history, as ratios to the trend. A share of the
    futures, the weight of the exponential trend, grows exponentially. Without a slope that differs from 0, the expected
    peaks have none, but the simulated futures do.
    """
    random = np.random.default_rng(_SEED)
    curved = round(_PATHS * trends.weight) if trends.curve else 0
    parts = [_paths(trends.line, days, pattern, _PATHS - curved, random)]
    if trends.curve and curved:
        parts.append(_paths(trends.curve, days, pattern, curved, random))
    lower, upper = np.quantile(np.vstack(parts), ((1 - coverage) / 2, (1 + coverage) / 2), axis=0)
    expected = trends.better.expected(days) * pattern.of(days)
    return Projection(expected, np.minimum(lower, expected), np.maximum(upper, expected))


def _paths(trend: Trend, days: Integers, pattern: WeeklyPattern, number: int, random: np.random.Generator) -> Floats:
    """Simulated peaks; shape (number, days)."""
    known = len(trend.ratios)
    freedom = max(known - 2 - pattern.parameters, 1)
    slopes = trend.slope + trend.slope_error * random.standard_t(freedom, size=(number, 1))
    levels = trend.level + trend.level_error * random.standard_t(freedom, size=(number, 1))
    # Deviations from what was fitted to them are smaller than those from the truth.
    deviations = (trend.ratios - 1) * math.sqrt(known / freedom)
    ratios = 1 + random.choice(deviations, size=(number, len(days)))
    if pattern.support:
        error = math.sqrt(math.pi / 2 / pattern.support) * float(np.std(deviations))
        ratios += error * random.standard_normal(size=(number, 7))[:, weekday_of(days)]
    return np.asarray(np.maximum(trend.at(days, levels, slopes) * ratios, 0.0) * pattern.of(days))
