"""Writes figures in few columns, for tables: the digits of `words.formats`, without spaces where there is no room;
and the pages that tables build, of which `screen` shows the rows that fit."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from uwsgi_headroom.documents.response_times import Percentile
from uwsgi_headroom.documents.sentences import describe_percentile
from uwsgi_headroom.words import formats

UNKNOWN = "-"

_TIME_COLUMNS = 6


def percent(part: float | None) -> str:
    """Write a share: 0.43 is `43%`, 0.0766 is `7.7%`."""
    return UNKNOWN if part is None else formats.percent(part).replace(" ", "")


def age(seconds: float | None) -> str:
    """Write an age: 12 is `12s`, 90 is `90s`, 600 is `10m`; below 10 s, whole seconds are enough."""
    if seconds is None:
        return UNKNOWN
    return f"{formats.fixed(seconds)}s" if seconds < 9.5 else formats.narrow_duration(seconds)


def size(count: float | None) -> str:
    """Write bytes: 52,000,000 is `52M`, 1,200,000,000 is `1.2G`; of memory that shrinks: `-52M`."""
    if count is None:
        return UNKNOWN
    sign = "-" if count < 0 else ""
    return sign + formats.byte_size(abs(count)).removesuffix("B").replace(" ", "")


def number(value: float | None) -> str:
    """Write a count: 12,345 is `12345`; a million and more is in millions: `12.3M`."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f}" if value < 1e6 else f"{value / 1e6:.1f}M" if value < 1e9 else f"{value / 1e9:.1f}G"


def rate(value: float | None) -> str:
    """Write requests per second: `62.4`, `12345`."""
    return UNKNOWN if value is None else formats.amount(value).replace(",", "")


def seconds_of(value: float | None) -> str:
    """Write a response time in at most six columns: 0.0672 is `67 ms`, 150 is `2.5m`."""
    if value is None:
        return UNKNOWN
    return formats.fit_duration(value, _TIME_COLUMNS)


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


def cpu_ranges(cpus: Sequence[int]) -> str:
    """Write CPUs as the kernel does: [0, 1, 2, 5] is `0-2,5`."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][-1] + 1:
            spans[-1][1:] = [cpu]
        else:
            spans.append([cpu])
    return ",".join("-".join(map(str, span)) for span in spans)


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
