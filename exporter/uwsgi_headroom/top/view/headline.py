"""Builds the head of a server's page: the verdict and the first act, then the lines that every face shows.

`screen` leaves out those with the largest rank where there is no room.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from uwsgi_headroom.check.tables import age, find_field
from uwsgi_headroom.documents.history import HistoryDocument
from uwsgi_headroom.documents.lines import list_lines
from uwsgi_headroom.documents.request_time import split_request_time
from uwsgi_headroom.documents.schema import ServerDocument, TextLine
from uwsgi_headroom.terminal_text import cut_lines, downsample, escape_text, sparkline, wrap
from uwsgi_headroom.top.view.tables import column_of, cut_middle, status_style, status_word, use_of
from uwsgi_headroom.words.states import STATUSES, WAITS

_LABEL = 13  # columns of the name of a line

_LEAST_SINCE = 60  # columns of a terminal with room for since when


_NOTHING = TextLine(code="", label="", parts=(), tone=None, rank=0)


def _list_lines(server: ServerDocument) -> tuple[TextLine, ...]:
    """The lines of a document; an exporter of an earlier version sends none."""
    return server.lines or list_lines(server)


def verdict_block(server: ServerDocument, troubles: Sequence[str], width: int, lines: int) -> list[Text]:
    """Build exactly `lines` lines, so that a changed sentence moves nothing below: reasons why the figures are not
    current, the verdict, and the advice."""
    verdict, act, *_ = (*_list_lines(server), _NOTHING)
    block = [stale_line(trouble, width) for trouble in troubles[: max(1, lines - 1)]]
    advice = wrap(act.text * (act.code == "act"), width, f"{act.label:{_LABEL}}", " " * _LABEL)
    room = max(lines - len(block) - min(len(advice), 1 + (lines > 3)), 1)
    text = verdict.text if width >= _LEAST_SINCE else verdict.parts[0]
    word = status_word(server).upper()
    block += _begin_styled(cut_lines(wrap(f"{word}  {text}", width), room), status_style(server), len(word))
    left = lines - len(block)
    if advice and left > 0:
        block += _begin_styled(cut_lines(advice, left), "bold", _LABEL)
    return [*block, *[Text()] * left][:lines]


def stale_line(trouble: str, width: int) -> Text:
    return Text(cut_lines(wrap(f"STALE  {trouble}", width), 1)[0], "bold red")


def _begin_styled(lines: Sequence[str], style: str, columns: int) -> list[Text]:
    """Lines whose first columns have a style."""
    first, *rest = map(Text, lines)
    first.stylize(style, 0, columns)
    return [first, *rest]


Part = tuple[int, Text]
"""A rank, and a line of the head: lines with a larger rank are left out first."""

_ELSEWHERE = ("verdict", "act", "unknown")
"""Lines that stand above the head, or on the page of advice."""


def head_parts(server: ServerDocument, trend: HistoryDocument, width: int) -> list[Part]:
    """Build the lines below the verdict, with a bar and sparklines."""
    rows: list[Part] = []
    for line in _list_lines(server):
        if line.code in _ELSEWHERE:
            continue
        rows.append((line.rank, _with_spark(fit_line(line, width), line, server, trend, width)))
        if line.code == "time" and (bar := time_bar(server, width)):
            rows.append((8, bar))
    before = Text()
    if server.state == "down":
        before.append(f"{'workers':{_LABEL}}", "bold").append("their last figures, before the server went down:")
    return [*rows, (6, before)]


def fit_line(line: TextLine, width: int) -> Text:
    """Write as many parts of a line as fit; an ellipsis replaces the others."""
    first, *rest = map(escape_text, line.parts)
    style = STATUSES[line.tone].terminal if line.tone in ("warning", "critical") else "bold" * bool(line.label)
    fitted = Text().append(f"{line.label:{_LABEL}}", "bold")
    fitted.append(cut_middle(first, max(0, width - _LABEL)), style)
    for place, part in enumerate(rest, 1):
        is_last = place == len(rest)
        if fitted.cell_len + cell_len(part) + len(_CUT) * (not is_last) > width:
            fitted.append(_CUT).truncate(width)
            break
        fitted.append(part)
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
        words = WAITS[part.state]
        name = _BAR_EDGE + escape_text(part.backend or words.short)
        fitting = name if cell_len(name) <= end - start else _BAR_EDGE
        line.append(set_cell_size(fitting, end - start), words.terminal)
        start = end
    return line.append(_BAR_EDGE)


_SPARK_OF, _LEAST_SPARK = 5, 5  # columns of the screen per column of a sparkline; least columns of a sparkline


def _with_spark(fitted: Text, line: TextLine, server: ServerDocument, trend: HistoryDocument, width: int) -> Text:
    """Append a sparkline of a line's figure, if there is room."""
    available = find_field(server, "threads.available")
    factors = [None if value is None else use_of(value) for value in trend.headroom.factor]
    values, of = {
        "headroom": (factors, 1.0),
        "in_service": (trend.concurrency.observed, available),
        "response": (column_of(trend, 0.95), None),
    }.get(line.code, ([], None))
    room = min(width - fitted.cell_len - 6, width // _SPARK_OF)  # a gap of two columns, and four for the time span
    if room < _LEAST_SPARK or not any(value is not None for value in values):
        return fitted
    drawn = sparkline(downsample(values, room), of)
    span = f" {age(len(values) * trend.step)}"
    fitted.append(" " * (width - fitted.cell_len - len(drawn) - len(span)))
    return fitted.append(drawn, "cyan").append(span, "dim")
