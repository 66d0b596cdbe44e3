"""Builds the table of workers: as many columns as fit (others scroll into view), and a row of totals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rich.text import Text

from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.documents.workers import Worker
from uwsgi_headroom.top.view.page import Page
from uwsgi_headroom.top.view.worker_columns import COLUMNS, FIXED, SCROLLED, Column

_NARROW = 60  # terminal columns below which only the worker's number stays in place
_MORE = 5  # terminal columns of the mark that counts the columns out of view


def worker_table(
    server: Server, sort: str, reverse: bool, width: int, first_column: int = 0, text: str = ""
) -> tuple[Page, int]:
    """Build the page of the workers that match a filter; returns also the first scrolled column in view."""
    known = tuple(column for column in SCROLLED if column.is_known(server))
    fixed, scrolled = (FIXED, known) if width >= _NARROW else (FIXED[:1], (*FIXED[1:], *known))
    first = min(first_column, _last_first_column(fixed, scrolled, width))
    fitting = _count_fitting(fixed, scrolled, first, width)
    columns = [*fixed, *scrolled[first : first + fitting]]
    rows = [_row(worker, server, columns) for worker in sort_workers(server.workers, sort, reverse)]
    totals = _assemble([Text(column.total(server)) for column in columns], columns, "bold")
    shown = [row for row in rows if text.casefold() in row.plain.casefold()]
    return Page(_title(columns, sort, width, first, len(scrolled) - first - fitting), shown, totals), first


def sort_workers(workers: Sequence[Worker], sort: str, reverse: bool) -> list[Worker]:
    """Sort workers: largest first (by number: smallest first), unknown values last."""
    value = next(column.value for column in COLUMNS if column.name == sort)
    descending = (sort != "number") != reverse
    known = [worker for worker in workers if value(worker) is not None]
    unknown = [worker for worker in workers if value(worker) is None]
    return sorted(known, key=lambda worker: value(worker) or 0.0, reverse=descending) + unknown


def _count_fitting(fixed: Sequence[Column], scrolled: Sequence[Column], first: int, width: int) -> int:
    """Count how many columns from `first` on fit beside the fixed ones. If not all fit, the mark needs room too."""
    room = width + 1 - sum(column.width + 1 for column in fixed) - (first > 0)
    rest = scrolled[first:]
    if sum(column.width + 1 for column in rest) <= room:
        return len(rest)
    room -= _MORE
    ends = accumulate(column.width + 1 for column in rest)
    return sum(end <= room for end in ends)


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


def _row(worker: Worker, server: Server, columns: Sequence[Column]) -> Text:
    return _assemble([column.cell(worker, server) for column in columns], columns, "" if worker.pid else "dim")


def _assemble(cells: Sequence[Text], columns: Sequence[Column], style: str) -> Text:
    line = Text(style=style)
    for cell, column in zip(cells, columns, strict=True):
        cell.truncate(column.width)
        line.append(" " * (column.width - cell.cell_len))
        line.append_text(cell)
        line.append(" ")
    return line
