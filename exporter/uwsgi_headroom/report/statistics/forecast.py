"""Forecasts daily peaks from the present regime, and the day on which they reach a limit.

How good such a forecast is shows the back-test: the last quarter of the range, forecast from the first three quarters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from uwsgi_headroom.report.columns import EventMark
from uwsgi_headroom.report.statistics import Refusal
from uwsgi_headroom.report.statistics.local_time import Floats, Integers, weekday_of
from uwsgi_headroom.report.statistics.peaks import DailyPeaks
from uwsgi_headroom.report.statistics.regimes import Regime, Regimes, find_regimes
from uwsgi_headroom.report.statistics.trend import Direction, Shape, fit_trends, project
from uwsgi_headroom.words.formats import signed_percent

COVERAGE = 0.9
"""Share of days whose peak the prediction interval should contain."""

LEAST_DAYS = 21
"""Shortest present regime, in days, from which a forecast is made."""

LEAST_PEAKS = 14
"""Fewest days with a known peak within them."""

_RECENT_DAYS = 7
_MONTH = 30


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
    interval (COVERAGE), weekly pattern included; how it is made is said at `trend.project`. direction: "none" if
    the interval of the slope contains 0; `expected` then has no slope, but the interval keeps the doubt about it.
    shape: of the growth; an exponential one has a constant ratio per day.
    fitted_days, fitted: the trend within the present regime, weekly pattern included, for a chart.
    per_month: growth in 30 days as a share of the present level; per_month_low, per_month_high: its interval
    (`trend.SLOPE_CONFIDENCE`). level: the trend's on the last day of the data, without weekly pattern.
    level_at_busiest: times the largest factor of the week.
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

    limit: in the unit of the peaks; more limits can be tried on the result with `crossing_of`. horizon_days: at most,
    and never further ahead than the present regime is long. regimes: if already known. The refusal says how many days
    of history are needed. Raises ValueError if the horizon is not positive.
    """
    if horizon_days < 1:
        raise ValueError(f"a horizon of {horizon_days} days")
    found = regimes or find_regimes(peaks, events)
    present = found.present
    if present is None:
        return Refusal(f"No day has a known peak; a forecast needs {LEAST_DAYS} days.", LEAST_DAYS, 0)
    history = present.last - present.first + 1
    if history < LEAST_DAYS or present.known < LEAST_PEAKS:
        return _refuse(found, present, history)
    used = (peaks.days >= present.first) & ~np.isin(peaks.days, found.exceptions)
    days = peaks.days[used]
    trends = fit_trends(days, peaks.peaks[used] / found.pattern.of(days), found.pattern.parameters)
    trend = trends.better
    horizon = min(horizon_days, history)
    ahead = present.last + 1 + np.arange(horizon)
    projection = project(trends, ahead, found.pattern, COVERAGE)
    forecast = Forecast(
        days=ahead,
        expected=projection.expected,
        lower=projection.lower,
        upper=projection.upper,
        direction=trend.direction,
        shape=trend.shape,
        fitted_days=days,
        fitted=trend.expected(days) * found.pattern.of(days),
        per_month=trend.growth(trend.slope, present.last, _MONTH),
        per_month_low=trend.growth(trend.slope_low, present.last, _MONTH),
        per_month_high=trend.growth(trend.slope_high, present.last, _MONTH),
        level=float(trend.expected(present.last)),
        level_at_busiest=float(trend.expected(present.last) * found.pattern.factors.max()),
        history_days=history,
        horizon_days=horizon,
        regimes=found,
        notes=tuple(_notes(found, present, horizon, horizon_days)),
    )
    return forecast if limit is None else replace(forecast, crossing=crossing_of(forecast, limit, peaks))


def crossing_of(forecast: Forecast, limit: float, recent_peaks: DailyPeaks) -> Crossing:
    """When the forecast reaches a limit. recent_peaks: those that the forecast was made from.

    Raises ValueError if the limit is not a positive number.
    """
    if not limit > 0:
        raise ValueError(f"a limit of {limit}")
    recent = recent_peaks.peaks[recent_peaks.days > recent_peaks.days[-1] - _RECENT_DAYS]
    reached = bool(np.any(recent >= limit))

    def first(peaks: Floats) -> int | None:
        place = np.flatnonzero(peaks >= limit)
        return int(forecast.days[place[0]]) if len(place) and not reached else None

    return Crossing(
        limit=limit,
        reached=reached,
        expected=first(forecast.expected),
        earliest=first(forecast.upper),
        latest=first(forecast.lower),
        horizon_days=forecast.horizon_days,
    )


def _refuse(regimes: Regimes, present: Regime, history: int) -> Refusal:
    if history < LEAST_DAYS:
        have, needed = history, LEAST_DAYS
        missing = f"a forecast needs {needed} days of daily peaks without a step, and there {_are(have)}."
    else:
        have, needed = present.known, LEAST_PEAKS
        missing = f"a forecast needs {needed} days with a known and usual peak, and {history} days have {have}."
    if len(regimes.spans) > 1:
        return Refusal(f"{describe_change(present)}; since then {missing}", needed, have)
    return Refusal(missing[0].upper() + missing[1:], needed, have)


def _are(days: int) -> str:
    return "is 1" if days == 1 else f"are {days}"


def describe_change(regime: Regime) -> str:
    """The change at a regime's start, as the start of a sentence."""
    day = date.fromordinal(regime.first).isoformat()
    cause = f" ({regime.event.title})" if regime.event else ""
    if regime.bend:
        return f"The growth of daily peaks changed about {day}{cause}"
    if math.isinf(regime.change):
        return f"Load began on {day}{cause}"
    return f"Daily peaks changed by {signed_percent(regime.change)} in a step on {day}{cause}"


def _notes(regimes: Regimes, present: Regime, horizon: int, asked: int) -> Iterator[str]:
    if len(regimes.spans) > 1:
        yield f"{describe_change(present)}; the forecast uses only the days since then."
    if horizon < asked:
        yield f"The forecast ends after {horizon} days, as it reaches no further ahead than its history is long."
    left_out = [day for day in regimes.exceptions if day >= present.first]
    if left_out:
        days = "1 day is" if len(left_out) == 1 else f"{len(left_out)} days are"
        has = "is" if len(left_out) == 1 else "are"
        yield f"{days} far from what is usual, as holidays are, and {has} left out."
    if present.last in left_out:
        yield "The last day is one of them; if it starts a new level, the forecast does not include it."
    if regimes.pattern.detail == "none":
        yield "There is too little history for a weekly pattern."


_FITTED = 0.75
"""Share of the range from which the forecast is made."""

_DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackTest:
    """A forecast of days that have passed, against what happened.

    days: ordinals of the compared days; expected, lower, upper, actual, naive: their peaks. naive: the last
    known peak of the same day of the week before the forecast; nan if two weeks have none.
    error, naive_error: mean of |forecast - actual| / actual. bias: mean of (forecast - actual) / actual; above 0 the
    forecast was too high. inside: share of the days within the prediction interval.
    changed: the level changed in a step within the compared days, which no forecast can know.
    fitted_days: days from the first to the last that the forecast was made from.
    """

    days: Integers
    expected: Floats
    lower: Floats
    upper: Floats
    actual: Floats
    naive: Floats
    error: float
    naive_error: float
    bias: float
    inside: float
    changed: bool
    fitted_days: int


def back_test(peaks: DailyPeaks, events: Sequence[EventMark] = ()) -> BackTest | Refusal:
    """Forecast the last quarter of the range from the first three quarters.

    Compared are the days up to the forecast's horizon whose peak is known and above 0. Refused if the first three
    quarters do not suffice for a forecast.
    """
    if not len(peaks.days):
        return Refusal("There are no daily peaks to compare a forecast with.")
    first, last = int(peaks.days[0]), int(peaks.days[-1])
    end = first + round(_FITTED * (last - first + 1)) - 1
    past = _until(peaks, end)
    forecast = forecast_peaks(past, horizon_days=max(last - end, 1), events=_before(events, past))
    if isinstance(forecast, Refusal):
        return replace(forecast, reason=f"From the first three quarters of the range: {forecast.reason}")
    compared = np.isin(peaks.days, forecast.days) & (peaks.peaks > 0)
    if not compared.any():
        return Refusal("The last quarter of the range has no daily peaks to compare a forecast with.")
    days, actual = peaks.days[compared], peaks.peaks[compared]
    place = days - forecast.days[0]
    naive = _last_week(past, days)
    misses = (forecast.expected[place] - actual) / actual
    naive_misses = np.abs(naive - actual) / actual
    return BackTest(
        days=days,
        expected=forecast.expected[place],
        lower=forecast.lower[place],
        upper=forecast.upper[place],
        actual=actual,
        naive=naive,
        error=float(np.mean(np.abs(misses))),
        naive_error=float(np.nanmean(naive_misses)) if np.any(np.isfinite(naive)) else math.nan,
        bias=float(np.mean(misses)),
        inside=float(np.mean((actual >= forecast.lower[place]) & (actual <= forecast.upper[place]))),
        changed=any(end < regime.first <= last and not regime.bend for regime in find_regimes(peaks, events).spans[1:]),
        fitted_days=forecast.history_days,
    )


def _until(peaks: DailyPeaks, last: int) -> DailyPeaks:
    kept = peaks.days <= last
    return replace(peaks, days=peaks.days[kept], peaks=peaks.peaks[kept], times=peaks.times[kept])


def _before(events: Sequence[EventMark], peaks: DailyPeaks) -> list[EventMark]:
    """Those that were known on the last day of the peaks."""
    return [event for event in events if event.time <= peaks.times[-1] + _DAY]


def _last_week(past: DailyPeaks, days: Integers) -> Floats:
    """The last known peak of the same day of the week within two weeks before the forecast; nan without one."""
    recent = past.days > past.days[-1] - 14
    by_weekday = dict(zip(weekday_of(past.days[recent]).tolist(), past.peaks[recent].tolist(), strict=True))
    return np.array([by_weekday.get(weekday, math.nan) for weekday in weekday_of(days).tolist()])
