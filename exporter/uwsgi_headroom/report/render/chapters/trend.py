"""Section 6: trend and forecast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from zoneinfo import ZoneInfo

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from uwsgi_headroom.report.columns import EventMark
from uwsgi_headroom.report.render.charts import BAND, BLUE, DIM, INK, ORANGE, VERMILLION, draw, label
from uwsgi_headroom.report.render.document import (
    UNKNOWN,
    Block,
    Chart,
    Items,
    Table,
    absent,
    limit_name,
    share,
    signed,
)
from uwsgi_headroom.report.review.sections import Absent, LimitForecast, LimitTrend, Trend
from uwsgi_headroom.report.review.trend import fullest_of
from uwsgi_headroom.report.review.wording import short_day
from uwsgi_headroom.words.formats import counted

INTRODUCTION = (
    "Daily peaks of each limit's use, on the server that uses most of it, and their forecast: a line times a "
    "weekly pattern, with an interval that contains nine of ten days. A limit is reached when all of it is in use."
)


def write(trend: Trend, zone: ZoneInfo) -> Iterator[Block]:
    shown = _shown(trend)
    if isinstance(shown.forecast, Absent):
        yield absent(f"No forecast. {shown.forecast.reason}")
    words = f"Daily peaks of {limit_name(shown.limit)}, in percent of the limit."
    yield Chart(words, partial(_draw_trend, shown, trend.events, zone))
    yield Table(
        heads=("limit", "highest", "level now", "growth in 30 days", "reached", "earliest", "latest"),
        rows=[_row(each, zone) for each in trend.limits],
        caption="Not forecast: less than half as full as another limit, or refused. Level: expected on the busiest day "
        "of a week. Growth: with an interval of 95 %. Earliest and latest: ends of the interval.",
        numbers=(1, 2),
        strong=[place for place, each in enumerate(trend.limits) if each.limit == trend.first],
    )
    notes = list(shown.forecast.notes) if isinstance(shown.forecast, LimitForecast) else []
    if trend.days_left_out:
        notes.append(f"{counted(trend.days_left_out, 'day')} left out: too little is known to know the peak.")
    if trend.days_unlike_today:
        notes.append(f"{counted(trend.days_unlike_today, 'day')} left out: threads or CPUs were others than today.")
    if trend.events and isinstance(shown.forecast, LimitForecast):
        notes.append(
            f"{counted(len(trend.events), 'change')} in this time (reloads, deploys, settings). If one changed the "
            "level in a step, the forecast takes it for growth. Choose `--range` to start after it."
        )
    if notes:
        yield Items(notes)


def _shown(trend: Trend) -> LimitTrend:
    """The limit whose chart is shown: the one reached first, else the one with the highest peak."""
    first = [each for each in trend.limits if each.limit == trend.first]
    return first[0] if first else fullest_of(trend)


def _row(each: LimitTrend, zone: ZoneInfo) -> tuple[str, ...]:
    highest = share(max((peak for _, peak in each.peaks), default=None))
    forecast = each.forecast
    if isinstance(forecast, Absent):
        return (limit_name(each.limit), highest, UNKNOWN, "not forecast", *[UNKNOWN] * 3)
    growth = f"{signed(forecast.per_month)} ({signed(forecast.per_month_low)} to {signed(forecast.per_month_high)})"
    if forecast.direction == "none":
        growth = f"none to be seen ({signed(forecast.per_month_low)} to {signed(forecast.per_month_high)})"
    later = f"not in {forecast.horizon_days} days"
    days = [later if day is None else short_day(day, zone) for day in (forecast.earliest, forecast.latest)]
    crossing = later if forecast.crossing is None else short_day(forecast.crossing, zone)
    if forecast.reached:
        crossing, days = "already", [UNKNOWN, UNKNOWN]
    return (limit_name(each.limit), highest, share(forecast.level), growth, crossing, *days)


MOST_EVENTS = 12


def _draw_trend(trend: LimitTrend, events: Sequence[EventMark], zone: ZoneInfo) -> str:
    """Dots: daily peaks; line: trend; band: the forecast's interval; dashed: the limit."""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.scatter(
            [_when(time) for time, _ in trend.peaks], [100 * peak for _, peak in trend.peaks], s=9, color=BLUE, zorder=3
        )
        highest = max((100 * peak for _, peak in trend.peaks), default=0.0)
        if isinstance(trend.forecast, LimitForecast):
            highest = max(highest, _draw_forecast(axes, trend.forecast, zone))
        for event in events[:MOST_EVENTS]:
            axes.axvline(_when(event.time), color=DIM, linewidth=0.7, linestyle=":")
        axes.axhline(100, color=VERMILLION, linewidth=1.2, linestyle="--")
        label(
            axes,
            "reached",
            (0, 100),
            (3, 3),
            ha="left",
            color=VERMILLION,
            fontsize=8,
            xycoords=("axes fraction", "data"),
        )
        axes.set_ylim(0, max(112.0, min(160.0, 1.05 * highest)))
        axes.set_title(f"Use of the limit {limit_name(trend.limit)} at each day's peak (%)", color=DIM)
        locator = AutoDateLocator(tz=zone, maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]

    return draw(2.6, paint)


def _draw_forecast(axes: Axes, forecast: LimitForecast, zone: ZoneInfo) -> float:
    """Draw the forecast; returns its highest value in percent."""
    axes.plot(
        [_when(time) for time, _ in forecast.fitted], [100 * value for _, value in forecast.fitted], color=INK, lw=0.9
    )
    ahead = [_when(point[0]) for point in forecast.ahead]
    low, high = ([100 * point[column] for point in forecast.ahead] for column in (2, 3))
    axes.fill_between(ahead, low, high, color=BAND, linewidth=0)
    axes.plot(ahead, [100 * point[1] for point in forecast.ahead], color=ORANGE, lw=1.2)
    if ahead:
        label(axes, "forecast", (ahead[0], low[0]), (3, -8), color=ORANGE, fontsize=8)
    if forecast.crossing is not None:
        axes.scatter([_when(forecast.crossing)], [100], s=30, color=VERMILLION, zorder=4)
        label(
            axes,
            short_day(forecast.crossing, zone),
            (_when(forecast.crossing), 100),
            (-4, 6),
            ha="left",
            color=VERMILLION,
            fontweight="bold",
            fontsize=8,
        )
    return max(high, default=0.0)


def _when(time: float) -> float:
    """Epoch seconds as matplotlib's dates, which are days."""
    return time / 86400.0
