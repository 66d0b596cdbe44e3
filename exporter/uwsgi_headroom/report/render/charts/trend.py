"""Draws the daily peaks of a limit's use, and their forecast."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.report.model import EventMark
from uwsgi_headroom.report.render.charts.style import BAND, BLUE, DIM, INK, ORANGE, VERMILLION, draw
from uwsgi_headroom.report.render.figures import limit_name, signed
from uwsgi_headroom.report.review.dates import short_day
from uwsgi_headroom.report.review.outlook_model import LimitForecast, LimitTrend

MOST_EVENTS = 12


def draw_trend(trend: LimitTrend, events: Sequence[EventMark], zone: ZoneInfo) -> str:
    """Dots: daily peaks; line: trend; band: the forecast's interval; dashed: the limit."""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        axes.scatter(
            [when(time) for time, _ in trend.peaks], [100 * peak for _, peak in trend.peaks], s=9, color=BLUE, zorder=3
        )
        highest = max((100 * peak for _, peak in trend.peaks), default=0.0)
        if isinstance(trend.forecast, LimitForecast):
            highest = max(highest, _forecast(axes, trend.forecast, zone))
        for event in events[:MOST_EVENTS]:
            axes.axvline(when(event.time), color=DIM, linewidth=0.7, linestyle=":")
        axes.axhline(100 * REACHED, color=VERMILLION, linewidth=1.2, linestyle="--")
        axes.annotate(
            "85 %: reached",
            (0, 100 * REACHED),
            xycoords=("axes fraction", "data"),
            xytext=(3, 3),
            textcoords="offset points",
            ha="left",
            color=VERMILLION,
            fontsize=8,
        )
        axes.set_ylim(0, max(100.0, min(160.0, 1.05 * highest)))
        axes.set_title(f"Use of the limit {limit_name(trend.limit)} at each day's peak (%)", color=DIM)
        locator = AutoDateLocator(tz=zone, maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))  # type: ignore[no-untyped-call]

    return draw(2.6, paint)


def when(time: float) -> float:
    """Epoch seconds as matplotlib's dates, which are days."""
    return time / 86400.0


def _forecast(axes: Axes, forecast: LimitForecast, zone: ZoneInfo) -> float:
    """Draw the forecast; returns its highest value in percent."""
    axes.plot(
        [when(time) for time, _ in forecast.fitted], [100 * value for _, value in forecast.fitted], color=INK, lw=0.9
    )
    ahead = [when(point[0]) for point in forecast.ahead]
    low, high = ([100 * point[column] for point in forecast.ahead] for column in (2, 3))
    axes.fill_between(ahead, low, high, color=BAND, linewidth=0)
    axes.plot(ahead, [100 * point[1] for point in forecast.ahead], color=ORANGE, lw=1.2)
    if ahead:
        axes.annotate(
            "forecast", (ahead[0], low[0]), xytext=(3, -8), textcoords="offset points", color=ORANGE, fontsize=8
        )
    for step in forecast.steps:
        axes.axvline(when(step.time), color=DIM, linewidth=1)
        size = "" if step.change is None else f" {signed(step.change)}"
        axes.annotate(
            f"step{size}",
            (when(step.time), 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(3, 0),
            textcoords="offset points",
            color=DIM,
            fontsize=8,
        )
    if forecast.crossing is not None:
        axes.scatter([when(forecast.crossing)], [100 * REACHED], s=30, color=VERMILLION, zorder=4)
        axes.annotate(
            short_day(forecast.crossing, zone),
            (when(forecast.crossing), 100 * REACHED),
            xytext=(-4, 6),
            textcoords="offset points",
            ha="left",
            color=VERMILLION,
            fontweight="bold",
            fontsize=8,
        )
    return max(high, default=0.0)
