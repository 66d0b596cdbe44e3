"""Builds the head of a server's page: the verdict and the first act, then the lines that every face shows.

`screen` leaves out those with the largest rank where there is no room.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from uwsgi_headroom.check.narrow_figures import age
from uwsgi_headroom.documents.lines import list_lines
from uwsgi_headroom.documents.request_time import TimePart, split_request_time
from uwsgi_headroom.documents.schema import ServerDocument, Summary, TextLine
from uwsgi_headroom.terminal_text import cut_lines, downsample, escape_text, sparkline, wrap
from uwsgi_headroom.top.feeds import Trend
from uwsgi_headroom.top.view.figures import cut_middle, use_of
from uwsgi_headroom.words.states import DOWN_STYLE, STATUSES, WAITS

_LABEL = 13  # columns of the name of a line

_LEAST_SINCE = 60  # columns of a terminal with room for since when


def status_word(server: ServerDocument | Summary) -> str:
    """Return `CRITICAL`, `warning` or `ok`, or the state if not up. Capitals are the alarm without colour."""
    if server.state != "up":
        return server.state.upper()
    return server.status.upper() if server.status == "critical" else server.status


def status_style(server: ServerDocument | Summary) -> str:
    """Return the style of `status_word`."""
    return DOWN_STYLE if server.state == "down" else STATUSES[server.status].terminal


def trouble_of(server: ServerDocument | Summary) -> str:
    """Return the reason why a server is down; empty if it is not down."""
    return server.error.message if server.state == "down" and server.error else ""


_NOTHING = TextLine(code="", label="", parts=(), tone=None, rank=0)


def _list_lines(server: ServerDocument) -> tuple[TextLine, ...]:
    """The lines of a document; an exporter of an earlier version sends none."""
    return server.lines or list_lines(server)


def verdict_block(server: ServerDocument, troubles: Sequence[str], width: int, lines: int) -> list[Text]:
    """Build exactly `lines` lines, so that a changed sentence moves nothing below: reasons why the figures are not
    current, the verdict, and the advice."""
    verdict, act, *_ = (*_list_lines(server), _NOTHING)
    stale = [Text(cut_lines(wrap(f"STALE  {trouble}", width), 1)[0], "bold red") for trouble in troubles]
    block = stale[: max(1, lines - 1)]
    advice = wrap(act.text, width, f"{act.label:{_LABEL}}", " " * _LABEL) if act.code == "act" else []
    room = max(lines - len(block) - min(len(advice), 2 if lines > 3 else 1), 1)
    text = verdict.text if width >= _LEAST_SINCE else verdict.parts[0]
    word = status_word(server).upper()
    said = [Text(line) for line in cut_lines(wrap(f"{word}  {text}", width), room)]
    said[0].stylize(status_style(server), 0, len(word))
    block = [*block, *said][:lines]
    if advice and len(block) < lines:
        cut = [Text(line) for line in cut_lines(advice, lines - len(block))]
        cut[0].stylize("bold", 0, _LABEL)
        block += cut
    return [*block, *[Text()] * (lines - len(block))]


class Part(Struct, frozen=True):
    """A line of the head. rank: lines with a larger one are left out first."""

    rank: int
    line: Text


_ELSEWHERE = ("verdict", "act", "unknown")
"""Lines that stand above the head, or on the page of advice."""


def head_parts(server: ServerDocument, trend: Trend, width: int) -> list[Part]:
    """Build the lines below the verdict, with a bar below the line about time, and sparklines beside three."""
    rows: list[Part] = []
    for line in _list_lines(server):
        if line.code in _ELSEWHERE:
            continue
        rows.append(Part(line.rank, _with_spark(fit_line(line, width), line, server, trend, width)))
        if line.code == "time":
            rows += [Part(8, bar)] if (bar := time_bar(server, width)) else []
    before = Text().append(f"{'workers':{_LABEL}}", "bold").append("their last figures, before the server went down:")
    return [*rows, Part(6, before if server.state == "down" else Text())]


def fit_line(line: TextLine, width: int) -> Text:
    """Write as many parts of a line as fit; an ellipsis replaces the others."""
    fitted = Text().append(f"{line.label:{_LABEL}}", "bold")
    style = STATUSES[line.tone].terminal if line.tone in ("warning", "critical") else "bold" if line.label else ""
    parts = [escape_text(part) for part in line.parts]
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        if place and fitted.cell_len + cell_len(part) + (0 if is_last else len(_CUT)) > width:
            fitted.append(_CUT).truncate(width)
            return fitted
        room = max(0, width - fitted.cell_len)
        fitted.append(cut_middle(part, room), "" if place else style)
    return fitted


_CUT = " …"

_BAR_EDGE = "│"


def time_bar(server: ServerDocument, width: int) -> Text | None:
    """Draw the parts in the order of the line above, each as long as its share, with its name if that fits; None if the
    time of a request is not known."""
    time = split_request_time(server.waits, server.flow) if server.waits else None
    if time is None:
        return None
    room = max(0, width - _LABEL - len(_BAR_EDGE))
    line = Text(" " * _LABEL)
    start, so_far = 0, 0.0
    for part in time.parts:
        so_far += part.threads
        end = round(room * so_far / time.whole.threads)
        name = _BAR_EDGE + _part_name(part)
        fitting = name if cell_len(name) <= end - start else _BAR_EDGE
        line.append(set_cell_size(fitting, end - start), WAITS[part.state].terminal)
        start = end
    return line.append(_BAR_EDGE)


def _part_name(part: TimePart) -> str:
    return escape_text(part.backend) if part.backend is not None else WAITS[part.state].short


_SPARK_OF, _LEAST_SPARK = 5, 5  # columns of the screen per column of a sparkline; least columns of a sparkline


def _with_spark(fitted: Text, line: TextLine, server: ServerDocument, trend: Trend, width: int) -> Text:
    """Append a sparkline of a line's figure at the right end, if there is one and room for it."""
    available = server.threads.available if server.threads else None
    values, of = {
        "headroom": ([use_of(value) for value in trend.headroom.factor], 1.0),
        "in_service": (trend.concurrency.observed, available),
        "response": (trend.response_times.column(0.95), None),
    }.get(line.code, ([], None))
    room = min(width - fitted.cell_len - 6, width // _SPARK_OF)  # a gap of two columns, and four for the time span
    if room < _LEAST_SPARK or not any(value is not None for value in values):
        return fitted
    drawn = sparkline(downsample(values, room), of)
    span = f" {age(len(values) * trend.step)}"
    fitted.append(" " * (width - fitted.cell_len - len(drawn) - len(span)))
    return fitted.append(drawn, "cyan").append(span, "dim")
