"""Section 6: the trend of each limit's use at peak, and when the first limit is reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime

from msgspec import Struct

from uwsgi_headroom.analysis.capacity import LIMITS, Limit
from uwsgi_headroom.report.forecast import Forecast, forecast_peaks
from uwsgi_headroom.report.quarters import Absent
from uwsgi_headroom.report.render import document as doc
from uwsgi_headroom.report.render.charts import draw_trend
from uwsgi_headroom.report.render.document import UNKNOWN, Block, Chart, Table, Text
from uwsgi_headroom.report.review.peaks import Peaks
from uwsgi_headroom.same_fields import given
from uwsgi_headroom.words.formats import counted, percent, signed_percent
from uwsgi_headroom.words.states import LIMITS as NAMES
from uwsgi_headroom.words.template import Facts, fill

COMPARABLE = 0.5
"""A limit is forecast from this part of the use of the fullest one on: all grow in proportion to the load."""


class LimitTrend(Struct, frozen=True, kw_only=True):
    """The daily peaks of a limit's utilization, and the forecast, or why there is none."""

    limit: Limit
    peaks: tuple[tuple[date, float], ...]
    forecast: Forecast | Absent

    @property
    def highest(self) -> float:
        return max((peak for _, peak in self.peaks), default=0.0)


class Trend(Struct, frozen=True, kw_only=True):
    """first: the limit that is reached first, None if none is within the horizon; days_left_out: with too little data;
    days_unlike_today: with other threads or CPUs, which do not count; reloads: days on which uWSGI was reloaded, which
    may have changed the level."""

    limits: tuple[LimitTrend, ...]
    first: Limit | None
    days_left_out: int
    days_unlike_today: int
    reloads: tuple[date, ...]

    @property
    def shown(self) -> LimitTrend:
        first = next((each for each in self.limits if each.limit == self.first), None)
        return first or max(self.limits, key=lambda each: each.highest)

    @property
    def forecast(self) -> Forecast | None:
        """That of the limit that is shown; None if it is refused."""
        return self.shown.forecast if isinstance(self.shown.forecast, Forecast) else None


def review_trend(peaks: Peaks) -> Trend | Absent:
    """The section of a service. Each limit's use is that of the server that uses most of it, in the busiest quarter
    hour of each day with the threads and CPUs of today."""
    if peaks.whole:
        return Absent(
            reason="No day is complete enough to know its peak, so there is no trend: a forecast needs weeks of them."
        )
    uses = {limit: peaks.utilization(limit) for limit in LIMITS}
    highest = {limit: max((use for use in each if use is not None), default=None) for limit, each in uses.items()}
    fullest = max((use for use in highest.values() if use is not None), default=0.0)
    limits = tuple(
        _follow(peaks, limit, uses[limit], may_come_first=use >= COMPARABLE * fullest)
        for limit, use in highest.items()
        if use is not None and uses[limit][peaks.counts] is not None  # else it is known of quiet days alone
    )
    if not limits:
        return Absent(reason="The use of no limit is known, so there is no trend.")
    records = [record for server in peaks.service.servers for record in server.records if record.window.reloads]
    return Trend(
        limits=limits,
        first=_find_first(limits),
        days_left_out=peaks.daily.left_out + peaks.daily.missing,
        days_unlike_today=len(peaks.daily.days) - len(peaks.as_today),
        reloads=tuple(sorted({datetime.fromtimestamp(record.until, peaks.zone).date() for record in records})),
    )


def _find_first(limits: Sequence[LimitTrend]) -> Limit | None:
    forecasts = [(each.limit, each.forecast) for each in limits if isinstance(each.forecast, Forecast)]
    dated = {limit: found.crossing or date.min for limit, found in forecasts if found.reached or found.crossing}
    return min(dated, key=dated.__getitem__, default=None)


CANNOT_COME_FIRST = (
    "It is less than half as full as another limit, and grows with the same load, so it cannot come first."
)


def _follow(peaks: Peaks, limit: Limit, uses: Sequence[float | None], *, may_come_first: bool) -> LimitTrend:
    days = peaks.daily.days
    known = {days[place]: use for place in peaks.as_today if (use := uses[place]) is not None}
    forecast = forecast_peaks([*known], [*known.values()], 1.0) if may_come_first else Absent(reason=CANNOT_COME_FIRST)
    peaks_by_day = tuple((date.fromordinal(day), use) for day, use in known.items())
    return LimitTrend(limit=limit, peaks=peaks_by_day, forecast=forecast)


INTRODUCTION = "Daily peaks of each limit's use on the fullest server, and when a limit is fully used."

NOTES = (
    "[left_out? {left_out:day} left out: too little is known. ][unlike? {unlike:day} left out: other threads or CPUs "
    "than today. ][reloads? Thin lines: uWSGI was reloaded, on {reloads:day}. If a reload changed the level in a step, "
    "the forecast takes it for growth: choose `--range` to start after it.]"
)


def write(trend: Trend) -> Iterator[Block]:
    shown, forecast = trend.shown, trend.forecast
    if isinstance(shown.forecast, Absent):
        yield Text(f"No forecast. {shown.forecast.reason}", "absent")
    words = f"Daily peaks of {NAMES[shown.limit].name}, in percent of the limit, with trend and forecast."
    yield Chart(words, draw_trend(shown.peaks, forecast, trend.reloads))
    yield Table(
        heads=("limit", "highest", "level now", "relative growth in 30 days", "reached", "earliest", "latest"),
        rows=[_row(each) for each in trend.limits],
        caption=f"Chart: {NAMES[shown.limit].name}. Level: on the busiest day of a week. Growth: with an interval of "
        "95 %. Not forecast: less than half as full as another limit, or refused.",
        numbers=(1, 2),
        strong=[place for place, each in enumerate(trend.limits) if each.limit == trend.first],
    )
    facts: Facts = {"left_out": trend.days_left_out or None, "unlike": trend.days_unlike_today or None}
    if notes := fill(NOTES, {**facts, "reloads": len(trend.reloads) or None}):
        yield Text(notes.strip())


GROWTH = "[growth? {growth}][not growth? none to be seen] ({low} to {high})"


def _row(each: LimitTrend) -> tuple[str, ...]:
    name, highest, forecast = NAMES[each.limit].name, doc.show(percent, each.highest), each.forecast
    if isinstance(forecast, Absent):
        return (name, highest, UNKNOWN, "not forecast", *[UNKNOWN] * 3)
    facts: Facts = {"growth": forecast.direction != "none" and signed_percent(forecast.per_month)}
    facts |= {"low": signed_percent(forecast.per_month_low), "high": signed_percent(forecast.per_month_high)}
    later = f"not in {counted(len(forecast.ahead), 'day')}"
    days = [given(at, doc.day) or later for at in (forecast.crossing, forecast.earliest, forecast.latest)]
    if forecast.reached:
        days = ["already", UNKNOWN, UNKNOWN]
    return (name, highest, doc.show(percent, forecast.level), fill(GROWTH, facts), *days)
