"""Draws a sparkline at the right end of a line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from uwsgi_headroom.terminal_text import downsample, sparkline
from uwsgi_headroom.top.view.figures import age

_SPARK_OF, _LEAST_SPARK = 5, 5  # columns of the screen per column of a sparkline; least columns of a sparkline


def with_spark(line: Text, values: Sequence[float | None], of: float | None, step: float, width: int) -> Text:
    """Append a sparkline of the values at the right end of a line, if there is room."""
    room = min(width - line.cell_len - 6, width // _SPARK_OF)  # a gap of two columns, and four for the time span
    if room < _LEAST_SPARK or not any(value is not None for value in values):
        return line
    drawn = sparkline(downsample(values, room), of)
    span = f" {age(len(values) * step)}"
    line.append(" " * (width - line.cell_len - len(drawn) - len(span)))
    return line.append(drawn, "cyan").append(span, "dim")
