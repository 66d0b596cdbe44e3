"""Fits texts into columns, and pages of rows into the lines of a screen."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from uwsgi_headroom.analysis.percentiles import Percentile
from uwsgi_headroom.check.narrow_figures import UNKNOWN
from uwsgi_headroom.documents.sentences import describe_percentile
from uwsgi_headroom.words import formats


def percentile(figure: Percentile | None) -> str:
    """Write a percentile: `480 ms`, or `<160 ms` if samples show no more."""
    if figure is None:
        return UNKNOWN
    return describe_percentile(figure, interval=False).replace("under ", "<")


def in_service(observed: float | None, threads: float | None) -> str:
    """Write mean requests in service and the mean number of threads: `4.8 of 32`."""
    if observed is None:
        return UNKNOWN
    of = "" if threads is None else f" of {formats.mean_threads(threads)}"
    return f"{formats.mean_count(observed)}{of}".replace(",", "")


def use_of(factor: float | None) -> float | None:
    """Return the use of the first limit, by which headroom is drawn: 1x is full and 2x is half, so that what matters is
    large. It is its own inverse."""
    return None if factor is None else 1.0 if factor <= 0 else 1 / factor


def cut_middle(text: str, columns: int) -> str:
    """Shorten a text to at most `columns` terminal columns. An ellipsis replaces the middle, because names differ at
    their ends."""
    if cell_len(text) <= columns:
        return text
    if columns <= 1:
        return "…"[:columns]
    tail = columns // 2
    return set_cell_size(text, columns - 1 - tail) + "…" + set_cell_size(text[::-1], tail)[::-1]


def fit_middle(text: str, columns: int) -> str:
    """Shorten a text as `cut_middle` does, or pad it with spaces."""
    return set_cell_size(cut_middle(text, columns), columns)


def title_line(text: str, width: int) -> Text:
    """Build the title of a page, across the whole width."""
    line = Text(text, "reverse")
    line.truncate(width, overflow="ellipsis", pad=True)
    return line


class Page(Struct, frozen=True):
    """Rows that scroll between a title and totals."""

    title: Text | None
    rows: Sequence[Text]
    totals: Text | None = None
    selected: int | None = None
    """A row to keep in view."""
    detail: Sequence[Text] = ()
    """Lines at the end."""

    @property
    def height(self) -> int:
        """Lines of the whole page."""
        return len(self.rows) + (self.title is not None) + (self.totals is not None) + len(self.detail)


def fit_page(page: Page, first: int, lines: int) -> tuple[list[Text], int]:
    """Return at most `lines` lines of a page, from row `first` if there are enough rows, and the first row in view.

    If rows do not fit, a line says how many are above and below.
    """
    room = lines - (page.title is not None)
    detail = list(page.detail) if room - len(page.detail) >= len(page.detail) + 2 else []
    room -= len(detail)
    totals = [page.totals] if page.totals is not None and room > 2 else []
    room -= len(totals)
    head = [page.title] if page.title is not None and lines > 0 else []
    if len(page.rows) <= room:
        gap = [Text()] * (room - len(page.rows)) if detail else []
        return [*head, *page.rows, *totals, *gap, *detail], 0
    rows = max(0, room - 1 if room > 1 else room)
    first = max(0, min(first, len(page.rows) - rows))
    if page.selected is not None:
        first = min(max(first, page.selected - rows + 1), page.selected)
    mark = [_mark(first, len(page.rows) - first - rows)] if room > 1 else []
    return [*head, *page.rows[first : first + rows], *mark, *totals, *detail], first


def _mark(above: int, below: int) -> Text:
    parts = ([f"↓ {below} more below"] if below else []) + ([f"↑ {above} above"] if above else [])
    return Text("    " + ", ".join(parts), "bold cyan")
