"""Draws charts of a server's history with block characters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec import Struct
from rich.text import Text

from uwsgi_headroom.terminal_text import downsample
from uwsgi_headroom.top.feeds import Trend
from uwsgi_headroom.top.view.figures import rate, use_of
from uwsgi_headroom.words.formats import duration, factor, mean_count

_AXIS = 9  # columns of the labels on the left
_BLOCKS = " ▁▂▃▄▅▆▇█"
_TALLEST = 8  # most lines of one chart


class _Chart(Struct, frozen=True):
    name: str
    values: Sequence[float | None]
    """One for each slice."""
    top: float | None
    """The value at the upper edge, None for the largest."""
    text: Callable[[float], str]
    style: str
    unknown: str = "not known"
    """What is shown if there is no value."""
    height: Callable[[float], float | None] = float
    """A value's height on the scale of `top`; its own inverse."""


def plot_lines(trend: Trend, width: int, lines: int) -> list[Text]:
    """Draw load, headroom, response time, wait in the listen queue and busy threads over time, in about `lines`
    lines."""
    available = [threads for threads in trend.threads.available if threads]
    charts = (
        _Chart("load, requests per second", trend.throughput, None, rate, "cyan"),
        _Chart("headroom, drawn by use", trend.headroom.factor, 1.0, factor, "green", height=use_of),
        *_response_time_charts(trend),
        _Chart("wait in the listen queue", trend.queue_wait, None, duration, "yellow"),
        _Chart("busy threads", trend.concurrency.observed, max(available, default=None), mean_count, "blue"),
    )
    if not trend.time:
        return [Text("No history to draw yet.")]
    tall = min(_TALLEST, max(1, (lines - 1) // len(charts) - 1))
    room = max(10, width - _AXIS - 1)
    rows = [row for chart in charts for row in _draw_chart(chart, room, tall)]
    return [*rows, _time_axis(trend, room)]


def _response_time_charts(trend: Trend) -> list[_Chart]:
    """Return the chart of the 95th percentile, unless the exporter has no such history."""
    p95 = trend.response_times.column(0.95)
    finest = [seconds for seconds in trend.response_times.finest if seconds is not None]
    unknown = f"under {duration(finest[-1])}, or too few requests" if finest else "not known"
    return [_Chart("p95 inside uWSGI, estimated", p95, None, duration, "magenta", unknown)] if p95 else []


def _draw_chart(chart: _Chart, room: int, tall: int) -> list[Text]:
    known = [value for value in chart.values if value is not None]
    if not known:
        return [_heading(chart.name, chart.unknown), *[Text()] * tall]
    top = chart.top or max(known) or 1.0
    columns = _stretch(chart.values, room)
    heading = _heading(
        chart.name, f"{_latest(chart, known)}, min {chart.text(min(known))}, max {chart.text(max(known))}"
    )
    rows = []
    for row in range(tall):
        edge = top * (tall - row) / tall
        is_labelled = row in _labelled(tall) and (chart.top or max(known))
        label = chart.text(chart.height(edge) or 0.0) if is_labelled else ""
        bottom = tall - 1 - row
        cells = "".join(_cell(None if value is None else chart.height(value), top, tall, bottom) for value in columns)
        rows.append(Text(f"{label:>{_AXIS - 1}} │", "dim").append(cells, f"not dim {chart.style}"))
    return [heading, *rows]


def _labelled(tall: int) -> tuple[int, ...]:
    """The rows whose upper edge has a label: the top, and the half if that is an edge."""
    return (0, tall // 2) if tall > 2 and tall % 2 == 0 else (0,)


def _latest(chart: _Chart, known: Sequence[float]) -> str:
    """Write the present value, or the last one that is known."""
    now = chart.values[-1]
    return f"last {chart.text(known[-1])}" if now is None else f"now {chart.text(now)}"


def _heading(name: str, figures: str) -> Text:
    return Text(name, "bold").append(f"   {figures}", "not bold")


def _cell(value: float | None, top: float, tall: int, bottom: int) -> str:
    """Return the character of one column, `bottom` lines above the chart's lower edge."""
    if value is None:
        return " "
    eighths = round(min(1.0, max(0.0, value / top)) * tall * 8)
    if value > 0:
        eighths = max(1, eighths)
    return _BLOCKS[min(8, max(0, eighths - bottom * 8))]


def _stretch(values: Sequence[float | None], room: int) -> list[float | None]:
    """Spread the values over at most `room` columns, each value as wide as there is room for."""
    fitting = downsample(values, room)
    return [value for value in fitting for _ in range(max(1, room // len(fitting)))]


def _time_axis(trend: Trend, room: int) -> Text:
    width = len(_stretch(trend.throughput or trend.time, room))
    begin = time.strftime("%H:%M:%S", time.localtime(trend.time[0] - trend.step))
    end = time.strftime("%H:%M:%S %Z", time.localtime(trend.time[-1]))
    return Text(" " * (_AXIS + 1) + begin + end.rjust(max(len(end) + 1, width - len(begin))), "dim")
