"""Builds the list of all servers, with a row of totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from uwsgi_headroom.check.narrow_figures import UNKNOWN, rate, seconds_of
from uwsgi_headroom.documents.schema import Summary
from uwsgi_headroom.terminal_text import cut_lines, escape_text, wrap
from uwsgi_headroom.top.servers import Key, ScreenModel, ServerEntry
from uwsgi_headroom.top.view.figures import Page, cut_middle, fit_middle, in_service, percentile, title_line
from uwsgi_headroom.top.view.headline import status_style, status_word, trouble_of
from uwsgi_headroom.words.formats import counted, duration, factor

_LEAST_NAME = 16
_LEAST_VERDICT, _WIDE, _WIDE_VERDICT = 12, 100, 40  # columns: least verdict, wide terminal, verdict on that


class _Column(Struct, frozen=True):
    title: str
    width: int
    rank: int
    """Columns with a larger rank are left out first on a narrow terminal."""
    text: Callable[[Summary], str]
    total: Callable[[Sequence[Summary]], str] = lambda _: ""
    least: int = 0
    """Columns of the narrowest terminal that shows it."""


def server_table(
    model: ScreenModel, entries: Sequence[ServerEntry], chosen: Key | None, width: int, now: float
) -> Page:
    """Build the page of these entries, with the chosen one marked. now: epoch seconds."""
    columns = _columns_that_fit(width)
    room = width - 2 - sum(1 + column.width for column in columns)  # for the name and the verdict
    longest = max([cell_len(escape_text(entry.summary.name)) for entry in entries], default=0)
    most = max(room - (_WIDE_VERDICT if width >= _WIDE else 0), _LEAST_NAME)
    name_width = min(max(longest, _LEAST_NAME), most)
    shows_verdict = room - name_width >= _LEAST_VERDICT
    title = f"  {'SERVER':{name_width}}" + "".join(f" {column.title:>{column.width}}" for column in columns)
    title = title.replace("  STATUS", "STATUS  ") + ("  VERDICT" if shows_verdict else "")
    rows = []
    for entry in entries:
        row = _row(model, entry, columns, name_width, here=entry.key == chosen, now=now)
        rows.append(row.append("  ").append_text(_verdict(model, entry, now)) if shows_verdict else row)
    for row in rows:
        row.truncate(width, overflow="ellipsis")
    places = [place for place, entry in enumerate(entries) if entry.key == chosen]
    totals = _totals(entries, columns, name_width) if len(entries) > 1 else None
    return Page(title_line(title, width), rows, totals, places[0] if places else None)


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
    return f"{servers}: {', '.join(bad)}" if bad else f"{servers}, all ok" if entries else servers


def _columns_that_fit(width: int) -> list[_Column]:
    room = width - 2 - _LEAST_NAME
    kept = []
    for column in sorted(_COLUMNS, key=lambda column: column.rank):
        room -= column.width + 1
        if room < 0 or width < column.least:
            break
        kept.append(column)
    return [column for column in _COLUMNS if column in kept]


def _row(
    model: ScreenModel, entry: ServerEntry, columns: Sequence[_Column], name_width: int, *, here: bool, now: float
) -> Text:
    summary = entry.summary
    old = summary.state != "up" or entry.key[0] in model.troubles
    line = Text("> " if here else "  ", "bold")
    name = fit_middle(escape_text(summary.name), name_width)
    style = "bold red" if summary.state == "down" else "bold" if here else ""
    line.append(name, style)
    for column in columns:
        if column is _STATUS:
            line.append(" ").append(f"{column.text(summary):{column.width}}", status_style(summary))
        else:
            line.append(f" {column.text(summary):>{column.width}}", "not bold dim" if old else "not bold")
    return line


def _verdict(model: ScreenModel, entry: ServerEntry, now: float) -> Text:
    summary = entry.summary
    since = max(0.0, now - entry.seen_at) if entry.key[0] in model.troubles else 0.0
    text = Text(style="not bold")
    if summary.state != "up" and summary.age is not None:
        since += summary.age
    if since >= 1.0:
        text.append(f"{duration(since)} ago: ", "bold red")
    return text.append(trouble_of(summary) or summary.verdict)


def growth(summary: Summary) -> str:
    """Write the factor by which load can grow; an upper bound (≤) if CPU, which may run out first, is not visible."""
    if summary.state == "down":
        return UNKNOWN
    if summary.headroom is None:
        return ">100x" if summary.far else UNKNOWN
    return ("≤" if summary.is_upper_bound else "") + factor(summary.headroom)


def _totals(entries: Sequence[ServerEntry], columns: Sequence[_Column], name_width: int) -> Text:
    """Build the totals of the servers that are up, because figures of others are old."""
    summaries = [entry.summary for entry in entries if entry.summary.state == "up"]
    name = f"{len(summaries)} of {len(entries)} up"
    line = Text(f"  {name[:name_width]:{name_width}}", "bold")
    for column in columns:
        line.append(f" {column.total(summaries):>{column.width}}")
    return line


def _total_in_service(summaries: Sequence[Summary]) -> str:
    known = [summary for summary in summaries if summary.observed is not None]
    complete = all(_threads(summary) is not None for summary in known)
    threads = sum(_threads(summary) or 0 for summary in known) if complete else None
    return in_service(sum(summary.observed or 0.0 for summary in known), threads) if known else ""


def _threads(summary: Summary) -> float | None:
    """The mean number of threads; of an exporter that does not say it, those of now."""
    return summary.available if summary.threads is None else summary.threads


def _total_rate(summaries: Sequence[Summary]) -> str:
    known = [summary.throughput for summary in summaries if summary.throughput is not None]
    return rate(sum(known)) if known else ""


def _mean_response(summaries: Sequence[Summary]) -> str:
    """Return the mean over all requests, with each server weighted by its throughput."""
    known = [
        (summary.response_time, summary.throughput)
        for summary in summaries
        if summary.response_time is not None and summary.throughput
    ]
    requests = sum(throughput for _, throughput in known)
    return seconds_of(sum(seconds * throughput for seconds, throughput in known) / requests) if requests else ""


_STATUS = _Column("STATUS", 8, 0, status_word)

_COLUMNS = (
    _STATUS,
    _Column("HEADROOM", 8, 1, growth),
    _Column("IN SERVICE", 11, 2, lambda summary: in_service(summary.observed, _threads(summary)), _total_in_service),
    _Column("REQ/S", 6, 3, lambda summary: rate(summary.throughput), _total_rate),
    _Column("RESP", 6, 4, lambda summary: seconds_of(summary.response_time), _mean_response),
    _Column("P95", 7, 5, lambda summary: percentile(summary.p95), least=_WIDE),
)
