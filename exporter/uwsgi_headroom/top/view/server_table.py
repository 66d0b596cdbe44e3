"""Builds the list of all servers, with a row of totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text

from uwsgi_headroom.check.narrow_figures import UNKNOWN, rate, seconds_of
from uwsgi_headroom.check.worker_table import Cells, Column, count_fitting, make_row, make_totals, plain
from uwsgi_headroom.documents.schema import Summary
from uwsgi_headroom.terminal_text import cut_lines, escape_text, wrap
from uwsgi_headroom.top.servers import Key, ScreenModel, ServerEntry
from uwsgi_headroom.top.view.figures import Page, cut_middle, fit_middle, in_service, percentile, title_line
from uwsgi_headroom.top.view.headline import status_style, status_word, trouble_of
from uwsgi_headroom.words.formats import counted, duration, factor

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
        name = fit_middle(escape_text(entry.summary.name), name_width)
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
    """The mean number of threads; of an exporter that does not say it, those of now."""
    return summary.available if summary.threads is None else summary.threads


def _total_rate(model: ScreenModel) -> str:
    known = [summary.throughput for summary in _list_up(model) if summary.throughput is not None]
    return rate(sum(known)) if known else ""


def _mean_response(model: ScreenModel) -> str:
    """Return the mean over all requests, with each server weighted by its throughput."""
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
