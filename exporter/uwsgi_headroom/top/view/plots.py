"""Draws a server's history as one plot: a row of small columns for each figure, over the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from rich.text import Text

from uwsgi_headroom.check.narrow_figures import rate
from uwsgi_headroom.documents.history import History
from uwsgi_headroom.terminal_text import downsample, sparkline
from uwsgi_headroom.top.view.figures import column_of, use_of
from uwsgi_headroom.words.formats import duration, factor, mean_count


class _Row(Struct, frozen=True):
    name: str
    values: Sequence[float | None]
    """One for each slice."""
    text: Callable[[float], str]
    style: str
    top: float | None = None
    """The height of a full column, None for the largest value."""
    height: Callable[[float], float] = float
    """A value's height on the scale of `top`."""


def plot_lines(trend: History, width: int) -> Iterator[Text]:
    """Draw load, headroom, response time, wait in the listen queue and busy threads over time."""
    if not trend.time:
        yield Text("No history to draw yet.")
        return
    available = [threads for threads in trend.threads.available if threads]
    p95 = column_of(trend, 0.95)
    rows = (
        _Row("load, requests per second", trend.throughput, rate, "cyan"),
        _Row("headroom, drawn by use", trend.headroom.factor, factor, "green", 1.0, use_of),
        *[_Row("p95 inside uWSGI, estimated", p95, duration, "magenta")] * bool(p95),
        _Row("wait in the listen queue", trend.queue_wait, duration, "yellow"),
        _Row("busy threads", trend.concurrency.observed, mean_count, "blue", max(available, default=None)),
    )
    for row in rows:
        yield Text(row.name, "bold").append(f"   {_write_figures(row)}", "not bold")
        heights = [None if value is None else row.height(value) for value in _stretch(row.values, width)]
        yield Text(sparkline(heights, row.top), row.style)
    begin = time.strftime("%H:%M:%S", time.localtime(trend.time[0] - trend.step))
    end = time.strftime("%H:%M:%S %Z", time.localtime(trend.time[-1]))
    columns = len(_stretch(trend.time, width))
    yield Text(begin + end.rjust(max(len(end) + 1, columns - len(begin))), "dim")


def _write_figures(row: _Row) -> str:
    """Write the present value, or the last one that is known, and the range."""
    known = [value for value in row.values if value is not None]
    if not known:
        return "not known"
    when = "last" if row.values[-1] is None else "now"
    return f"{when} {row.text(known[-1])}, min {row.text(min(known))}, max {row.text(max(known))}"


def _stretch(values: Sequence[float | None], room: int) -> list[float | None]:
    """Spread the values over at most `room` columns, each value as wide as there is room for."""
    fitting = downsample(values, room)
    return [value for value in fitting for _ in range(max(1, room // max(1, len(fitting))))]
