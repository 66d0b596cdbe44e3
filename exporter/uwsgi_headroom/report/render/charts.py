"""Draws charts as SVG, with the colours of the page, which follow the reader's dark or light screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from html import escape

from uwsgi_headroom.report.forecast import Forecast
from uwsgi_headroom.words.colours import PALETTE, ink_on
from uwsgi_headroom.words.formats import percent

WIDTH = 700
"""Of a chart, in units in which a letter is about 6 wide."""

Point = tuple[float, float]


class Axes:
    """Places points in a chart: days from left to right, and shares of a limit from 0 to `most`. bottom: of the
    plot."""

    bottom = 170

    def __init__(self, days: Sequence[date], most: float) -> None:
        self.first, self.last, self.most = min(days), max(days), most

    def x(self, day: date) -> float:
        return 50 + (WIDTH - 70) * (day - self.first).days / max(1, (self.last - self.first).days)

    def y(self, part: float) -> float:
        return self.bottom - (self.bottom - 8) * min(part, self.most) / self.most

    def place(self, points: Iterable[tuple[date, float]]) -> list[Point]:
        return [(self.x(day), self.y(part)) for day, part in points]

    def ticks(self) -> Iterator[date]:
        step = max(1, (self.last - self.first).days // 7)
        day = self.first
        while day <= self.last:
            yield day
            day += timedelta(days=step)


def draw_trend(peaks: Sequence[tuple[date, float]], forecast: Forecast | None, reloads: Sequence[date]) -> str:
    """Dots: daily peaks; line: trend; band: the interval of the forecast; dashed: all of the limit; thin: reloads; a
    large dot where the limit is reached."""
    ahead, fitted = (getattr(forecast, name, ()) for name in ("ahead", "fitted"))
    highest = max([*(value for _, value in peaks), *(each.high for each in ahead)], default=0.0)
    axes = Axes([*(day for day, _ in peaks), *(each.day for each in ahead)] or [date.min], max(1.12, min(1.6, highest)))
    parts = [_line([(axes.x(day), 8), (axes.x(day), axes.bottom)], "line") for day in reloads]
    if ahead:
        low, high = ([(each.day, getattr(each, end)) for each in ahead] for end in ("low", "high"))
        band = axes.place(low) + axes.place(reversed(high))
        parts.append(f'<polygon points="{_points(band)}" fill="var(--band)"/>')
        parts.append(_line(axes.place((each.day, each.expected) for each in ahead), "orange"))
    limit = axes.place([(axes.first, 1.0), (axes.last, 1.0)])
    parts += [_line(axes.place(fitted), "ink"), _line(limit, "vermillion", "6 4")]
    parts += [_dot(*point, 2, "blue") for point in axes.place(peaks)]
    if forecast and forecast.crossing:
        parts.append(_dot(axes.x(forecast.crossing), axes.y(1.0), 5, "vermillion"))
    parts += [_text(44, axes.y(part) + 4, percent(part), anchor="end") for part in (0.0, 0.5, 1.0)]
    parts += [_text(axes.x(day), axes.bottom + 16, f"{day.day} {day:%b}", anchor="middle") for day in axes.ticks()]
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {axes.bottom + 22:g}" font-size="12">{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, *, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var(--dim)">{escape(text)}</text>'


def _line(points: Sequence[Point], colour: str, dashes: str = "none") -> str:
    style = f'fill="none" stroke="var(--{colour})" stroke-dasharray="{dashes}"'
    return f'<polyline points="{_points(points)}" {style}/>'


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _dot(x: float, y: float, radius: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="var(--{colour})"/>'


LEAST_SPREAD = 0.25
"""Values that differ by less than this part of the highest look nearly the same: noise is no pattern."""

_SHADES = [
    [int(PALETTE[name].light[place : place + 2], 16) for place in (1, 3, 5)] for name in ("cell-low", "cell-high")
]


def shade(values: Sequence[Sequence[float | None]]) -> list[list[str]]:
    """A CSS style for each cell, darker for more; empty for an unknown value."""
    known = [value for row in values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    scale = max(high - low, LEAST_SPREAD * high) or 1.0
    return [["" if value is None else _mix((value - low) / scale) for value in row] for row in values]


def _mix(part: float) -> str:
    channels = (round(start + (end - start) * part) for start, end in zip(*_SHADES, strict=True))
    colour = "#" + "".join(f"{channel:02x}" for channel in channels)
    return f"background:{colour};color:{ink_on(colour)}"
