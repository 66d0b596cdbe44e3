"""Forecasts daily peaks from the present regime, and the day on which they reach a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from uwsgi_headroom.report.model import EventMark
from uwsgi_headroom.report.statistics.local_time import Floats, Integers
from uwsgi_headroom.report.statistics.peaks import DailyPeaks
from uwsgi_headroom.report.statistics.refusal import Refusal
from uwsgi_headroom.report.statistics.regimes import Regimes

COVERAGE = 0.9
"""Share of days whose peak the prediction interval should contain."""

SLOPE_CONFIDENCE = 0.95
"""Of the interval around the slope: growth is reported only if this interval does not contain 0."""

LEAST_DAYS = 21
"""Shortest present regime, in days, from which a forecast is made."""

Direction = Literal["growth", "decline", "none"]
Shape = Literal["linear", "exponential"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """When daily peaks reach a limit. All days are ordinals of local days.

    limit: in the unit of the peaks. expected: the first day whose expected peak is at the limit or above. earliest,
    latest: the first days on which the upper and the lower end of the prediction interval are. None: not within the
    horizon. reached: the limit was reached in the last seven days of the data; then the three are None.
    horizon_days: how far ahead was looked.
    """

    limit: float
    reached: bool
    expected: int | None
    earliest: int | None
    latest: int | None
    horizon_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Expected daily peaks after the last day of the data.

    days: ordinals of the days ahead. expected, lower, upper: the peak of each of these days with its prediction
    interval (COVERAGE), weekly pattern included. direction: "none" if the interval of the slope contains 0; `expected`
    then has no slope, but the interval keeps the doubt about it. shape: of the growth; an exponential one has a constant
    ratio per day. fitted_days, fitted: the trend within the present regime, weekly pattern included, for a chart.
    per_month: growth in 30 days as a share of the present level, with its interval (SLOPE_CONFIDENCE) low and high.
    level: the present level, at the last day, without weekly pattern. level_at_busiest: times the largest factor of the
    week.
    history_days: length of the present regime. horizon_days: number of days ahead, never more than history_days.
    regimes: from `find_regimes`. notes: sentences for the reader: what shortens the horizon, which step was found.
    crossing: of the limit that was asked for; None without one.
    """

    days: Integers
    expected: Floats
    lower: Floats
    upper: Floats
    direction: Direction
    shape: Shape
    fitted_days: Integers
    fitted: Floats
    per_month: float
    per_month_low: float
    per_month_high: float
    level: float
    level_at_busiest: float
    history_days: int
    horizon_days: int
    regimes: Regimes
    notes: tuple[str, ...]
    crossing: Crossing | None = None


def forecast_peaks(
    peaks: DailyPeaks,
    limit: float | None = None,
    horizon_days: int = 365,
    events: Sequence[EventMark] = (),
    regimes: Regimes | None = None,
) -> Forecast | Refusal:
    """Forecast daily peaks.

    limit: in the unit of the peaks; more limits can be tried on the result with `crossing_of`. regimes: if already
    known. The refusal says how many days of history are needed.
    """
    raise NotImplementedError


def crossing_of(forecast: Forecast, limit: float, recent_peaks: DailyPeaks) -> Crossing:
    """When the forecast reaches a limit. recent_peaks: those that the forecast was made from."""
    raise NotImplementedError
