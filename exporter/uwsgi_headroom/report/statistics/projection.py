"""Projects a trend ahead, with a prediction interval by simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from uwsgi_headroom.report.statistics.local_time import Floats, Integers
from uwsgi_headroom.report.statistics.trend import Trend

_PATHS = 2000
_SEED = 17


@dataclass(frozen=True, slots=True)
class Projection:
    """One value per day ahead."""

    expected: Floats
    lower: Floats
    upper: Floats


def project(trend: Trend, days: Integers, factors: Floats, coverage: float) -> Projection:
    """The expected peak of each day with the interval that contains the peak with probability `coverage`.

    Each of _PATHS simulated futures draws a slope, a level and each day's deviation. Slope and level are drawn from
    Student's t distribution with their standard errors; the two are independent, as the level is that of the middle of
    the history. Deviations are drawn from those of the history, as ratios to the trend. factors: the weekly pattern of
    the days. Without a slope that differs from 0, the expected peaks have none, but the simulated futures do.
    """
    random = np.random.default_rng(_SEED)
    known = len(trend.ratios)
    freedom = max(known - 2, 1)
    slopes = trend.slope + trend.slope_error * random.standard_t(freedom, size=(_PATHS, 1))
    levels = trend.level + trend.level_error * random.standard_t(freedom, size=(_PATHS, 1))
    # Deviations from a fitted line are smaller than those from the true one.
    deviations = (trend.ratios - 1) * math.sqrt(known / freedom)
    ratios = 1 + random.choice(deviations, size=(_PATHS, len(days)))
    paths = np.maximum(trend.at(days, levels, slopes) * ratios, 0.0) * factors
    lower, upper = np.quantile(paths, ((1 - coverage) / 2, (1 + coverage) / 2), axis=0)
    expected = trend.at(days, slope=0.0 if trend.direction == "none" else None) * factors
    return Projection(expected, np.minimum(lower, expected), np.maximum(upper, expected))
