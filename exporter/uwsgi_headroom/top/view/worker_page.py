"""Builds the page of the workers: a table whose columns scroll sideways, and a row of totals."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from uwsgi_headroom.check.worker_table import (
    FIXED,
    Column,
    count_fitting,
    list_scrolled,
    make_row,
    make_totals,
    sort_workers,
)
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.top.view.figures import Page

_NARROW = 60  # terminal columns below which only the worker's number stays in place
_MORE = 5  # terminal columns of the mark that counts the columns out of view


def worker_page(
    server: ServerDocument, sort: str, width: int, first_column: int = 0, text: str = ""
) -> tuple[Page, int]:
    """Build the page of the workers that match a filter; returns also the first scrolled column in view."""
    known = list_scrolled(server)
    fixed, scrolled = (FIXED, known) if width >= _NARROW else (FIXED[:1], (*FIXED[1:], *known))
    first = min(first_column, _last_first_column(fixed, scrolled, width))
    fitting = _count_fitting(fixed, scrolled, first, width)
    columns = [*fixed, *scrolled[first : first + fitting]]
    rows = [
        Text.assemble(*make_row(worker, server, columns), style="" if worker.pid else "dim")
        for worker in sort_workers(server.workers, sort)
    ]
    totals = Text.assemble(*make_totals(server, columns), style="bold")
    shown = [row for row in rows if text.casefold() in row.plain.casefold()]
    return Page(_title(columns, sort, width, first, len(scrolled) - first - fitting), shown, totals), first


def _count_fitting(fixed: Sequence[Column], scrolled: Sequence[Column], first: int, width: int) -> int:
    """Count how many columns from `first` on fit beside the fixed ones. If not all fit, the mark needs room too."""
    room = width + 1 - sum(column.width + 1 for column in fixed) - (first > 0)
    rest = scrolled[first:]
    fitting = count_fitting(rest, room)
    return fitting if fitting == len(rest) else count_fitting(rest, room - _MORE)


def _last_first_column(fixed: Sequence[Column], scrolled: Sequence[Column], width: int) -> int:
    """Return the first column in view when the table is scrolled to its right end."""
    for first in range(len(scrolled)):
        if _count_fitting(fixed, scrolled, first, width) == len(scrolled) - first:
            return first
    return len(scrolled) - 1


def _title(columns: Sequence[Column], sort: str, width: int, before: int, after: int) -> Text:
    title = Text(style="reverse")
    for column in columns:
        title.append(f"{column.title:>{column.width}}", style="bold underline" if column.name == sort else "")
        title.append(" ")
    mark = ("←" if before else "") + (f"+{after}→" if after else "")
    title.truncate(width - len(mark), pad=True)
    return title.append(mark, "bold")
