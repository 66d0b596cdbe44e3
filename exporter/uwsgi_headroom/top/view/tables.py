"""Builds the tables of servers and workers, fitted into the columns of a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from uwsgi_headroom.analysis.percentiles import Percentile
from uwsgi_headroom.check.tables import (
    FIXED,
    UNKNOWN,
    Cells,
    Column,
    WorkerColumn,
    count_fitting,
    list_scrolled,
    make_row,
    make_totals,
    plain,
    rate,
    seconds_of,
    sort_workers,
)
from uwsgi_headroom.documents.history import HistoryDocument
from uwsgi_headroom.documents.schema import ServerDocument, Summary
from uwsgi_headroom.documents.sentences import describe_percentile
from uwsgi_headroom.terminal_text import cut_lines, escape_text, wrap
from uwsgi_headroom.top.navigation import Key, ScreenModel, ServerEntry
from uwsgi_headroom.words.formats import counted, duration, factor
from uwsgi_headroom.words.states import STATUSES
from uwsgi_headroom.words.template import Facts, fill


def percentile(figure: Percentile | None) -> str:
    """Write a percentile: `480 ms`, or `<160 ms` if samples show no more."""
    if figure is None:
        return UNKNOWN
    return describe_percentile(figure, interval=False).replace("under ", "<")


def column_of(trend: HistoryDocument, share: float) -> list[float | None]:
    """The history of one percentile, such as 0.95; empty if there is none."""
    times = trend.response_times
    return next((column for each, column in zip(times.shares, times.seconds, strict=False) if each == share), [])


def in_service(observed: float | None, threads: float | None) -> str:
    """Write mean requests and threads in 11 columns: `4.8 of 32`, `1024/4096`."""
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


def title_line(text: str, width: int) -> Text:
    line = Text(text, "reverse")
    line.truncate(width, overflow="ellipsis", pad=True)
    return line


class Page(Struct, frozen=True):
    """Rows that scroll between a title and totals, each a line or none. column: the first scrolled one in view."""

    title: Sequence[Text]
    rows: Sequence[Text]
    totals: Sequence[Text] = ()
    selected: int | None = None
    """A row to keep in view."""
    detail: Sequence[Text] = ()
    """Lines at the end."""
    column: int = 0

    @property
    def height(self) -> int:
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


def status_word(server: ServerDocument | Summary) -> str:
    """Return `CRITICAL`, `warning` or `ok`, or the state if not up. Capitals are the alarm without colour."""
    if server.state != "up":
        return server.state.upper()
    return server.status.replace("critical", "CRITICAL")


def status_style(server: ServerDocument | Summary) -> str:
    return "bold reverse red" if server.state == "down" else STATUSES[server.status].terminal


def trouble_of(server: ServerDocument | Summary) -> str:
    """Return the reason why a server is down; empty if it is not down."""
    return server.error.message if server.state == "down" and server.error else ""


_LEAST_NAME = 16
_LEAST_VERDICT, _WIDE, _WIDE_VERDICT = 12, 100, 40  # columns: least verdict, wide terminal, verdict on that

ServerColumn = Column[ServerEntry, ScreenModel]


def server_table(
    model: ScreenModel, entries: Sequence[ServerEntry], chosen: Key | None, width: int, now: float
) -> Page:
    """Build the page of these entries, with the chosen one marked. now: epoch seconds."""
    columns = _COLUMNS if width >= _WIDE else _COLUMNS[:-1]
    columns = columns[: count_fitting(columns, width - 2 - _LEAST_NAME)]
    room = width - 2 - sum(1 + column.width for column in columns)  # for the name and the verdict
    longest = max([cell_len(escape_text(entry.summary.name)) for entry in entries], default=0)
    most = max(room - _WIDE_VERDICT * (width >= _WIDE), _LEAST_NAME)
    name_width = min(max(longest, _LEAST_NAME), most)
    shows_verdict = room - name_width >= _LEAST_VERDICT
    title = f"  {'SERVER':{name_width}}" + "".join(f" {column.title:>{column.width}}" for column in columns)
    rows = []
    for entry in entries:
        name = set_cell_size(cut_middle(escape_text(entry.summary.name), name_width), name_width)
        mark = "> " if entry.key == chosen else "  "
        style = "red" if entry.summary.state == "down" else ""
        row = Text.assemble((mark, "bold"), (name, f"bold {style}"), " ", *make_row(entry, model, columns))
        row.right_crop(1)
        if shows_verdict:
            row.append("  ").append_text(_verdict(model, entry, now))
        row.truncate(width, overflow="ellipsis")
        rows.append(row)
    selected = next((place for place, entry in enumerate(entries) if entry.key == chosen), None)
    totals = [_totals(replace(model, entries=tuple(entries)), columns, name_width)] * (len(entries) > 1)
    return Page([title_line(title + "  VERDICT" * shows_verdict, width)], rows, totals, selected)


def detail_lines(entries: Sequence[ServerEntry], chosen: Key | None, width: int) -> list[Text]:
    """Write the verdict of the chosen server, always in two lines, so that nothing moves."""
    entry = next((entry for entry in entries if entry.key == chosen), None)
    if entry is None:
        return [Text(), Text()]
    name = cut_middle(escape_text(entry.summary.name), max(8, width // 3))
    word = status_word(entry.summary)
    text = trouble_of(entry.summary) or entry.summary.verdict
    lines = [Text(line) for line in cut_lines(wrap(f"{name}: {word}  {text}", width), 2)]
    lines[0].stylize("bold", 0, len(name))
    lines[0].stylize(status_style(entry.summary), len(name) + 2, len(name) + 2 + len(word))
    return [*lines, Text()][:2]


def count_servers(entries: Sequence[ServerEntry]) -> str:
    """Return such as `3 servers: 1 down, 1 critical` or `3 servers, all ok`."""
    states = Counter(status_word(entry.summary).lower() for entry in entries)
    bad = [f"{states[word]} {word}" for word in ("down", "stale", "critical", "warning", "unknown") if states[word]]
    servers = counted(len(entries), "server")
    return f"{servers}: {', '.join(bad)}" if bad else servers + ", all ok" * bool(entries)


def _is_old(entry: ServerEntry, model: ScreenModel) -> bool:
    return entry.summary.state != "up" or entry.key[0] in model.troubles


def _verdict(model: ScreenModel, entry: ServerEntry, now: float) -> Text:
    summary = entry.summary
    since = max(0.0, now - entry.seen_at) * (entry.key[0] in model.troubles)
    if summary.state != "up":
        since += summary.age or 0.0
    text = Text()
    if since >= 1.0:
        text.append(f"{duration(since)} ago: ", "bold red")
    return text.append(trouble_of(summary) or summary.verdict)


def growth(summary: Summary) -> str:
    """Write the factor by which load can grow; an upper bound (≤) if CPU, which may run out first, is not visible."""
    if summary.state == "down" or (summary.headroom is None and not summary.far):
        return UNKNOWN
    return ">100x" if summary.headroom is None else "≤" * summary.is_upper_bound + factor(summary.headroom)


def _totals(model: ScreenModel, columns: Sequence[ServerColumn], name_width: int) -> Text:
    name = f"{len(_list_up(model))} of {len(model.entries)} up"
    return Text.assemble(f"  {name[:name_width]:{name_width}} ", *make_totals(model, columns), style="bold")


def _list_up(model: ScreenModel) -> list[Summary]:
    """The servers that have totals: figures of others are old."""
    return [entry.summary for entry in model.entries if entry.summary.state == "up"]


def _total_in_service(model: ScreenModel) -> str:
    known = [summary for summary in _list_up(model) if summary.observed is not None]
    if not known:
        return ""
    threads = [_threads(summary) for summary in known]
    observed = sum(summary.observed or 0.0 for summary in known)
    return in_service(observed, None if None in threads else sum(each or 0 for each in threads))


def _threads(summary: Summary) -> float | None:
    """The mean number of threads; of an older exporter, those of now."""
    return summary.available if summary.threads is None else summary.threads


def _total_rate(model: ScreenModel) -> str:
    known = [summary.throughput for summary in _list_up(model) if summary.throughput is not None]
    return rate(sum(known)) if known else ""


def _mean_response(model: ScreenModel) -> str:
    known = [
        (summary.response_time, summary.throughput)
        for summary in _list_up(model)
        if summary.response_time is not None and summary.throughput
    ]
    requests = sum(throughput for _, throughput in known)
    return seconds_of(sum(seconds * throughput for seconds, throughput in known) / requests) if requests else ""


def _status(entry: ServerEntry, _: ScreenModel) -> Cells:
    return plain(f"{status_word(entry.summary):8}", f"bold {status_style(entry.summary)}")


def _figure(
    title: str, width: int, text: Callable[[Summary], str], total: Callable[[ScreenModel], str] = lambda _: ""
) -> ServerColumn:
    """Make a column of figures, which are dim if they are old."""

    def cell(entry: ServerEntry, model: ScreenModel) -> Cells:
        return plain(text(entry.summary), "dim" * _is_old(entry, model))

    return Column(title, width, cell, total)


_COLUMNS: tuple[ServerColumn, ...] = (
    Column("STATUS  ", 8, _status),
    _figure("HEADROOM", 8, growth),
    _figure("IN SERVICE", 11, lambda server: in_service(server.observed, _threads(server)), _total_in_service),
    _figure("REQ/S", 6, lambda server: rate(server.throughput), _total_rate),
    _figure("RESP", 6, lambda server: seconds_of(server.response_time), _mean_response),
    _figure("P95", 7, lambda server: percentile(server.p95)),
)
"""As many as fit, from the first on; the last one on a wide terminal only."""


_NARROW = 60  # terminal columns below which only the worker's number stays in place
_MORE = 5  # terminal columns of the mark that counts the columns out of view


def worker_page(server: ServerDocument, sort: str, width: int, first_column: int, text: str) -> Page:
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
    return Page([_title(columns, sort, width, mark)], shown, [totals], column=first)


def _count_fitting(fixed: Sequence[WorkerColumn], scrolled: Sequence[WorkerColumn], first: int, width: int) -> int:
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
