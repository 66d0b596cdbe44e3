"""Fits texts into columns, and pages of rows into the lines of a screen."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from uwsgi_headroom.check.narrow_figures import UNKNOWN
from uwsgi_headroom.documents.history import History
from uwsgi_headroom.documents.response_times import Percentile
from uwsgi_headroom.documents.sentences import describe_percentile
from uwsgi_headroom.words.template import Facts, fill


def percentile(figure: Percentile | None) -> str:
    """Write a percentile: `480 ms`, or `<160 ms` if samples show no more."""
    if figure is None:
        return UNKNOWN
    return describe_percentile(figure, interval=False).replace("under ", "<")


def column_of(trend: History, share: float) -> list[float | None]:
    """The history of one percentile, such as 0.95; empty if there is none."""
    times = trend.response_times
    return next((column for each, column in zip(times.shares, times.seconds, strict=False) if each == share), [])


def in_service(observed: float | None, threads: float | None) -> str:
    """Write mean requests in service and the mean number of threads in 11 columns: `4.8 of 32`, `1024/4096`."""
    if observed is None:
        return UNKNOWN
    facts: Facts = {"observed": observed, "threads": threads}
    text = fill("{observed:mean}[threads?  of {threads:threads}]", facts).replace(",", "")
    return text if len(text) <= _IN_SERVICE else text.replace(" of ", "/")


_IN_SERVICE = 11


def use_of(factor: float) -> float:
    """Return the use of the first limit, by which headroom is drawn: 1x is full and 2x is half, so that what matters is
    large. It is its own inverse."""
    return 1 / factor if factor > 0 else 1.0


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
    """Rows that scroll between a title and totals, each a line or none."""

    title: Sequence[Text]
    rows: Sequence[Text]
    totals: Sequence[Text] = ()
    selected: int | None = None
    """A row to keep in view."""
    detail: Sequence[Text] = ()
    """Lines at the end."""

    @property
    def height(self) -> int:
        """Lines of the whole page."""
        return len(self.title) + len(self.rows) + len(self.totals) + len(self.detail)


def fit_page(page: Page, first: int, lines: int) -> tuple[list[Text], int]:
    """Return at most `lines` lines of a page, from row `first` if there are enough rows, and the first row in view.

    If rows do not fit, a line says how many are above and below.
    """
    room = lines - len(page.title)
    detail = page.detail if room >= 2 * len(page.detail) + 2 else ()
    room -= len(detail)
    totals = page.totals if room > 2 else ()
    room -= len(totals)
    head = page.title[:lines]
    if len(page.rows) <= room:
        gap = [Text()] * ((room - len(page.rows)) * bool(detail))
        return [*head, *page.rows, *totals, *gap, *detail], 0
    rows = max(0, room - (room > 1))
    first = max(0, min(first, len(page.rows) - rows))
    if page.selected is not None:
        first = min(max(first, page.selected - rows + 1), page.selected)
    mark = [_mark(first, len(page.rows) - first - rows)] * (room > 1)
    return [*head, *page.rows[first : first + rows], *mark, *totals, *detail], first


def _mark(above: int, below: int) -> Text:
    parts = (f"↓ {below} more below" * (below > 0), f"↑ {above} above" * (above > 0))
    return Text("    " + ", ".join(filter(None, parts)), "bold cyan")
