"""Builds the page of the workers: a table whose columns scroll sideways, and a row of totals."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from uwsgi_headroom.check.worker_table import (
    FIXED,
    WorkerColumn,
    count_fitting,
    list_scrolled,
    make_row,
    make_totals,
    sort_workers,
)
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.top.view.figures import Page

_NARROW = 60  # terminal columns below which only the worker's number stays in place
_MORE = 5  # terminal columns of the mark that counts the columns out of view


def worker_page(server: Server, sort: str, width: int, first_column: int = 0, text: str = "") -> tuple[Page, int]:
    """Build the page of the workers that match a filter; returns also the first scrolled column in view."""
    every = (*FIXED, *list_scrolled(server))
    held = len(FIXED) if width >= _NARROW else 1
    fixed, scrolled = every[:held], every[held:]
    fitting = [_count_fitting(fixed, scrolled, first, width) for first in range(len(scrolled))]
    last = next((first for first, count in enumerate(fitting) if count == len(scrolled) - first), len(scrolled) - 1)
    first = min(first_column, last)
    columns = [*fixed, *scrolled[first : first + fitting[first]]]
    rows = [
        Text.assemble(*make_row(worker, server, columns), style="dim" * (not worker.pid))
        for worker in sort_workers(server.workers, sort)
    ]
    totals = Text.assemble(*make_totals(server, columns), style="bold")
    shown = [row for row in rows if text.casefold() in row.plain.casefold()]
    more = len(scrolled) - first - fitting[first]
    mark = "←" * (first > 0) + f"+{more}→" * (more > 0)
    return Page([_title(columns, sort, width, mark)], shown, [totals]), first


def _count_fitting(fixed: Sequence[WorkerColumn], scrolled: Sequence[WorkerColumn], first: int, width: int) -> int:
    """Count how many columns from `first` on fit beside the fixed ones. If not all fit, the mark needs room too."""
    room = width + 1 - sum(column.width + 1 for column in fixed) - (first > 0)
    rest = scrolled[first:]
    fitting = count_fitting(rest, room)
    return fitting if fitting == len(rest) else count_fitting(rest, room - _MORE)


def _title(columns: Sequence[WorkerColumn], sort: str, width: int, mark: str) -> Text:
    title = Text(style="reverse")
    for column in columns:
        title.append(f"{column.title:>{column.width}}", style="bold underline" * (column.name == sort)).append(" ")
    title.truncate(width - len(mark), pad=True)
    return title.append(mark, "bold")
