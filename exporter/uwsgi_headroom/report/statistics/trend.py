"""The trend of daily peaks within one regime: Theil-Sen line, of the levels or of their logarithms.

P. K. Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", Journal of the American Statistical
Association 63, 1968. The slope is the median of the slopes between all pairs of days; its interval is that of Kendall's
rank correlation, widened for the correlation of neighbouring days.

A trend is projected ahead with a prediction interval, by simulation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import norm, theilslopes

from uwsgi_headroom.report.statistics.local_time import Floats, Integers, weekday_of
from uwsgi_headroom.report.statistics.peaks import WeeklyPattern
from uwsgi_headroom.report.statistics.regimes import inflation

Direction = Literal["growth", "decline", "none"]
Shape = Literal["linear", "exponential"]

SLOPE_CONFIDENCE = 0.95
"""Of the interval around the slope: growth is reported only if this interval does not contain 0."""

_LEAST_LEVEL = 0.01
"""Share of the median level below which a line that declines is not followed."""

CLEARLY_EXPONENTIAL = 0.95
"""Weight from which growth is said to be exponential."""

_LARGEST_LOGARITHM = 20.0
"""Above the level; keeps a simulated exponential finite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """level + slope * (day - middle), of levels (linear) or of their logarithms (exponential).

    slope_low, slope_high: the interval (SLOPE_CONFIDENCE). slope_error, level_error: standard errors. ratios: observed
    level over the trend's, of each day. least: the trend is not followed below this level.
    """

    shape: Shape
    middle: float
    level: float
    level_error: float
    slope: float
    slope_low: float
    slope_high: float
    slope_error: float
    ratios: Floats
    least: float

    @property
    def direction(self) -> Direction:
        """What the interval of the slope says."""
        if self.slope_low > 0:
            return "growth"
        return "decline" if self.slope_high < 0 else "none"

    def at(
        self, days: Integers | float, level: Floats | float | None = None, slope: Floats | float | None = None
    ) -> Floats:
        """The level at each day; with another level or slope, as if the trend had those."""
        level, slope = self.level if level is None else level, self.slope if slope is None else slope
        values = np.asarray(level + slope * (np.asarray(days) - self.middle), dtype=np.float64)
        if self.shape == "linear":
            return np.maximum(values, self.least)
        return np.exp(np.minimum(values, self.level + _LARGEST_LOGARITHM))

    def expected(self, days: Integers | float) -> Floats:
        """The level at each day, without a slope if that does not differ from 0."""
        return self.at(days, slope=0.0 if self.direction == "none" else None)

    def growth(self, slope: float, day: int, ahead: int) -> float:
        """Growth from `day` in so many days, at another slope, as a share of the level at `day`."""
        if self.shape == "exponential":
            return math.expm1(slope * ahead)
        level = float(self.at(day))
        return slope * ahead / level if level > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Trends:
    """line, curve: linear and exponential. curve: None without a slope, or with a level of 0. weight: of the curve, the
    probability that it is the better description."""

    line: Trend
    curve: Trend | None
    weight: float

    @property
    def better(self) -> Trend:
        """The line, unless the curve is clearly better."""
        return self.curve if self.curve and self.weight >= CLEARLY_EXPONENTIAL else self.line


def fit_trends(days: Integers, levels: Floats, fitted: int = 0) -> Trends:
    """The trends of levels without weekly pattern. At least two different days.

    fitted: parameters of the weekly pattern that was taken out, by which the levels vary less than the truth.
    """
    line = _fit(days, levels, "linear", fitted)
    if line.direction == "none" or levels.min() <= 0:
        return Trends(line, None, 0.0)
    curve = _fit(days, levels, "exponential", fitted)
    return Trends(line, curve, _weight(days, curve, line))


def _fit(days: Integers, levels: Floats, shape: Shape, fitted: int) -> Trend:
    values = levels if shape == "linear" else np.log(levels)
    found = theilslopes(values, days, alpha=SLOPE_CONFIDENCE)
    middle = float(np.median(days))
    level = float(np.median(values - found.slope * (days - middle)))
    residuals = values - level - found.slope * (days - middle)
    widening = math.sqrt(inflation(days, residuals) * len(days) / max(len(days) - fitted, 1))
    low, high = (found.slope + widening * (end - found.slope) for end in (found.low_slope, found.high_slope))
    least = _LEAST_LEVEL * float(np.median(levels))
    expected = np.maximum(values - residuals, least) if shape == "linear" else np.exp(values - residuals)
    return Trend(
        shape=shape,
        middle=middle,
        level=level,
        # The standard error of a median is sqrt(pi / 2) times that of a mean.
        level_error=math.sqrt(math.pi / 2 / len(days)) * float(np.std(residuals)) * widening,
        slope=float(found.slope),
        slope_low=float(low),
        slope_high=float(high),
        slope_error=float(high - low) / (2 * float(norm.ppf((1 + SLOPE_CONFIDENCE) / 2))),
        ratios=np.divide(levels, expected, out=np.ones(len(levels)), where=expected > 0),
        least=least,
    )


def _weight(days: Integers, curve: Trend, line: Trend) -> float:
    """The curve's likelihood over that of both, if residuals have Laplace's distribution, as for a median.

    Counts as many days as would be as informative if neighbours were not correlated.
    """
    curve_residuals, line_residuals = np.log(curve.ratios), np.log(line.ratios)
    misses, line_misses = float(np.mean(np.abs(curve_residuals))), float(np.mean(np.abs(line_residuals)))
    if misses <= 0 or line_misses <= 0:
        return float(misses < line_misses)
    evidence = len(days) / inflation(days, line_residuals) * math.log(misses / line_misses)
    return 1 / (1 + math.exp(min(evidence, 700.0)))


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
