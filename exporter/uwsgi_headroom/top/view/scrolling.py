"""Cuts a page of rows to the part that fits the screen. Tables and pages build a `Page`, `screen` fits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text


def title_line(text: str, width: int) -> Text:
    """Build the title of a page, across the whole width."""
    line = Text(text, "reverse")
    line.truncate(width, overflow="ellipsis", pad=True)
    return line


@dataclass(frozen=True, slots=True)
class Page:
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
