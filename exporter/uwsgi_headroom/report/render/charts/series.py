"""Draws throughput and response time against concurrency.

Draws the daily peaks of a limit's use, and their forecast.

Draws a figure by weekday and hour: plain SVG, as 168 cells with numbers take matplotlib a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from zoneinfo import ZoneInfo

from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.report.columns import EventMark
from uwsgi_headroom.report.render.charts.style import BAND, BLUE, DIM, GREEN, INK, ORANGE, VERMILLION, draw
from uwsgi_headroom.report.render.figures import limit_name, signed
from uwsgi_headroom.report.review.sections import Curve, HeatMap, LimitForecast, LimitTrend
from uwsgi_headroom.report.review.wording import short_day
from uwsgi_headroom.words.colours import PALETTE


def draw_curve(curve: Curve) -> str:
    """Two charts beside each other. Dots: observed, larger for more quarter hours."""

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _throughput(left, curve)
        _response_time(right, curve)
        for axes in (left, right):
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.set_xlabel("threads in service")

    return draw(2.7, paint)


def _sizes(curve: Curve) -> list[float]:
    most = max(point.quarters for point in curve.points)
    return [10 + 40 * point.quarters / most for point in curve.points]


def _throughput(axes: Axes, curve: Curve) -> None:
    across = [point.concurrency for point in curve.points]
    observed = [point.throughput for point in curve.points]
    axes.vlines(
        across,
        [point.throughput_low for point in curve.points],
        [point.throughput_high for point in curve.points],
        color=BLUE,
        linewidth=1,
    )
    axes.scatter(across, observed, s=_sizes(curve), color=BLUE, zorder=3)
    axes.set_title("Requests per second", color=DIM)
    highest = 1.25 * max(observed)
    bounds = [
        (point.concurrency, point.throughput_bound) for point in curve.points if point.throughput_bound is not None
    ]
    if bounds:
        axes.plot([x for x, _ in bounds], [y for _, y in bounds], color=ORANGE, linestyle="--", linewidth=1.2)
        _name(axes, [(x, y) for x, y in bounds if y <= highest], "upper bound", ORANGE, above=True)
    fitted = [(point.concurrency, point.fitted) for point in curve.points if point.fitted is not None]
    if fitted:
        axes.plot([x for x, _ in fitted], [y for _, y in fitted], color=GREEN, linewidth=1.4)
        _name(axes, [(x, 0.82 * y) for x, y in fitted], "scalability law", GREEN, above=False)
    axes.set_ylim(0, highest)


def _response_time(axes: Axes, curve: Curve) -> None:
    known = [
        (point.concurrency, 1000 * point.response_time) for point in curve.points if point.response_time is not None
    ]
    axes.set_title("Response time (ms)", color=DIM)
    if known:
        axes.plot([x for x, _ in known], [y for _, y in known], color=BLUE, marker="o", markersize=4, linewidth=1)
        axes.set_ylim(0, 1.25 * max(y for _, y in known))
    bounds = [
        (point.concurrency, 1000 * point.response_time_bound)
        for point in curve.points
        if point.response_time_bound is not None
    ]
    if bounds:
        axes.plot([x for x, _ in bounds], [y for _, y in bounds], color=ORANGE, linestyle="--", linewidth=1.2)
        _name(axes, bounds, "lower bound", ORANGE, above=False)


def _name(axes: Axes, points: list[tuple[float, float]], text: str, colour: str, *, above: bool) -> None:
    """The name of a line, near the end of it."""
    if points:
        x, y = points[-1]
        axes.annotate(
            text,
            (x, y),
            xytext=(0, 5 if above else -6),
            textcoords="offset points",
            color=colour,
            ha="right",
            va="bottom" if above else "top",
            fontsize=8,
        )


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


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SHADES = tuple(
    (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:], 16))
    for colour in (PALETTE["cell-low"].light, "#7fb2d6", PALETTE["cell-high"].light)
)
"""The colours of the lowest, the middle and the highest value, as on the live page."""

_LEFT, _TOP, _WIDE, _TALL = 34, 16, 27, 15
"""Points: the room for the days and the title, and the size of a cell."""


def draw_heat_map(found: HeatMap) -> str:
    """Darker is more; each cell has its number."""
    width, height = _LEFT + 24 * _WIDE, _TOP + 7 * _TALL + 14
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height}" font-size="8" fill="var(--ink)">'
        f'<text x="{_LEFT}" y="10" font-size="9" fill="var(--dim)">{escape(found.title)} ({escape(found.unit)})</text>'
        f"{''.join(_parts(found))}</svg>"
    )


def shade(part: float) -> str:
    """The colour at a part (0 to 1) of the way from the lowest value to the highest."""
    place = min(1, int(2 * part))
    (low, high), rest = list(pairwise(_SHADES))[place], 2 * part - place
    mixed = (round(start + (end - start) * rest) for start, end in zip(low, high, strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _parts(found: HeatMap) -> Iterator[str]:
    known = [value for row in found.rows for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    for day, (name, row) in enumerate(zip(_DAYS, found.rows, strict=True)):
        top = _TOP + day * _TALL
        yield f'<text x="{_LEFT - 5}" y="{top + 10.5}" text-anchor="end">{name}</text>'
        for hour, value in enumerate(row):
            if value is not None:
                yield _cell(hour, top, value, (value - low) / (high - low) if high > low else 0.0)
    for hour in range(0, 24, 3):
        x, y = _LEFT + (hour + 0.5) * _WIDE, _TOP + 7 * _TALL + 10
        yield f'<text x="{x}" y="{y}" text-anchor="middle" fill="var(--dim)">{hour}:00</text>'


def _cell(hour: int, top: float, value: float, part: float) -> str:
    left, ink = _LEFT + hour * _WIDE, "#fefefe" if part > 0.5 else "#101418"
    return (
        f'<rect x="{left}" y="{top}" width="{_WIDE - 1}" height="{_TALL - 1}" fill="{shade(part)}"/>'
        f'<text x="{left + _WIDE / 2 - 0.5}" y="{top + 10}" text-anchor="middle" font-size="7" fill="{ink}">{value:.0f}'
        "</text>"
    )
