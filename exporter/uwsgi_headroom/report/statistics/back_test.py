"""Back-test: forecasts the last quarter of the range from the first three quarters, and compares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from uwsgi_headroom.report.model import EventMark
from uwsgi_headroom.report.statistics.forecast import forecast_peaks
from uwsgi_headroom.report.statistics.local_time import Floats, Integers, weekday_of
from uwsgi_headroom.report.statistics.peaks import DailyPeaks
from uwsgi_headroom.report.statistics.refusal import Refusal
from uwsgi_headroom.report.statistics.regimes import find_regimes

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
