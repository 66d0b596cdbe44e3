"""Section 6: the trend of each limit's use at peak, and when the first limit is reached."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time
from math import isfinite
from zoneinfo import ZoneInfo

import numpy as np
from msgspec.structs import replace

from uwsgi_headroom.analysis.capacity import LIMITS, Limit
from uwsgi_headroom.report.columns import Column, EventMark
from uwsgi_headroom.report.review.peaks import Peaks
from uwsgi_headroom.report.review.sections import Absent, LimitForecast, LimitTrend, Trend
from uwsgi_headroom.report.statistics.trend import Forecast, forecast_peaks
from uwsgi_headroom.same_fields import copy_fields

HORIZON_DAYS = 365
"""The forecast looks so far ahead at most; the statistics shorten it to the length of the history."""

COMPARABLE = 0.5
"""The highest use of a limit, as a part of that of the fullest limit, from which on it is forecast: by the utilization
law, all grow in proportion to the load."""

_CHANGES = ("reload", "configuration", "deploy", "capacity")
"""Parts of the kinds of events that may change the level of load or capacity."""


def review_trend(peaks: Peaks) -> Trend | Absent:
    """The section of a service. Each limit's use is that of the server that uses most of it, in the busiest quarter
    hour of each day with the threads and CPUs of today; a limit is reached when all of it is in use."""
    if peaks.whole:
        return Absent(
            reason="No day is complete enough to know its peak, so there is no trend: a forecast needs weeks of them."
        )
    uses = {limit: use for limit in LIMITS if np.isfinite(use := peaks.utilization(limit)).any()}
    fullest = max((float(np.nanmax(use)) for use in uses.values()), default=0.0)
    limits = tuple(_trend(peaks, limit, use, fullest) for limit, use in uses.items())
    if not limits:
        return Absent(reason="The use of no limit is known, so there is no trend.")
    return Trend(
        limits=limits,
        first=_first(limits),
        days=len(peaks.daily.days),
        days_left_out=peaks.daily.left_out + peaks.daily.missing,
        days_unlike_today=len(peaks.daily.days) - len(peaks.as_today),
        events=_events(peaks),
    )


def fullest_of(trend: Trend) -> LimitTrend:
    return max(trend.limits, key=lambda each: max((peak for _, peak in each.peaks), default=0.0))


def first_of(trend: Trend | Absent) -> Limit | None:
    """The limit that the trend reaches first; None without one."""
    return None if isinstance(trend, Absent) else trend.first


def _events(peaks: Peaks) -> tuple[EventMark, ...]:
    marks = {
        (event.time, event.kind, event.title): event for server in peaks.service.servers for event in server.events
    }
    return tuple(mark for _, mark in sorted(marks.items()) if any(part in mark.kind for part in _CHANGES))


def _first(limits: Sequence[LimitTrend]) -> Limit | None:
    """The limit that is reached first: already, else by its expected day."""
    forecasts = [(trend.limit, trend.forecast) for trend in limits if isinstance(trend.forecast, LimitForecast)]
    dated = [
        (-1.0 if forecast.reached else forecast.crossing or 0.0, limit)
        for limit, forecast in forecasts
        if forecast.reached or forecast.crossing is not None
    ]
    return min(dated, key=lambda pair: pair[0])[1] if dated else None


def _trend(peaks: Peaks, limit: Limit, uses: Column, fullest: float) -> LimitTrend:
    """The trend of a limit. fullest: the highest use of any limit."""
    known = np.isfinite(uses) & np.isin(np.arange(len(uses)), peaks.as_today)
    daily = replace(peaks.daily, days=peaks.daily.days[known], peaks=uses[known], times=peaks.daily.times[known])
    if float(np.nanmax(uses)) < COMPARABLE * fullest:
        found: Forecast | str = (
            "It is less than half as full as another limit, and grows with the same load, so it cannot come first."
        )
    else:
        found = forecast_peaks(daily, 1.0, HORIZON_DAYS)
    return LimitTrend(
        limit=limit,
        peaks=tuple(zip(map(float, daily.times), map(float, daily.peaks), strict=True)),
        forecast=Absent(reason=found) if isinstance(found, str) else _forecast(found, daily.zone),
    )


def _forecast(found: Forecast, zone: ZoneInfo) -> LimitForecast:
    return copy_fields(
        LimitForecast,
        found,
        fitted=_points(found.fitted_days, zone, found.fitted),
        ahead=_points(found.days, zone, found.expected, found.lower, found.upper),
        crossing=_day(found.crossing, zone),
        earliest=_day(found.earliest, zone),
        latest=_day(found.latest, zone),
    )


def _points(days: Sequence[int] | np.ndarray, zone: ZoneInfo, *columns: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(
        (_noon(int(day), zone), *(float(value) for value in values))
        for day, *values in zip(days, *columns, strict=True)
        if all(isfinite(value) for value in values)
    )


def _noon(day: int, zone: ZoneInfo) -> float:
    """Noon of a local day, given as an ordinal, in epoch seconds."""
    return datetime.combine(date.fromordinal(day), time(12), zone).timestamp()


def _day(day: int | None, zone: ZoneInfo) -> float | None:
    return None if day is None else _noon(day, zone)
