"""Builds the table of workers: as many columns as fit (others scroll into view), and a row of totals.

The columns stand in the order of what they say: the most informative first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from msgspec import Struct
from rich.text import Text

from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.documents.workers import Worker
from uwsgi_headroom.terminal_text import bar
from uwsgi_headroom.top.servers import sort_by_figure
from uwsgi_headroom.top.view.figures import UNKNOWN, Page, age, cpu_ranges, number, percent, rate, seconds_of, size
from uwsgi_headroom.words.formats import mean_count
from uwsgi_headroom.words.states import WORKERS

_HOT, _WARM = 0.9, 0.7  # CPUs of one interpreter

Value = Callable[[Worker], float | None]


class Column(Struct, frozen=True):
    title: str
    width: int
    value: Value
    """The sort key."""
    cell: Callable[[Worker, Server], Text]
    total: Callable[[Server], str] = lambda _: ""
    name: str = ""
    """Of the order by this column; empty without one."""
    is_known: Callable[[Server], bool] = lambda _: True
    """Whether a server has any such value: else the column is left out."""


def busy_bar(worker: Worker, width: int) -> Text:
    """Write and draw how many of a worker's threads are busy, in this many columns."""
    if worker.busy_threads is None or not worker.threads:
        return Text("-")
    full = worker.busy_threads >= worker.threads
    number = f"{worker.busy_threads:>{len(str(worker.threads))}}/{worker.threads} "
    cells = max(0, width - len(number))
    drawn = bar(worker.busy_threads, worker.threads, cells)
    return Text(number).append(f"{drawn:{cells}}", "red" if full else "green")


def sum_known(workers: Iterable[Worker], value: Value) -> float | None:
    """Sum a value over the workers with a known value; None if there are none."""
    known = [each for each in map(value, workers) if each is not None]
    return sum(known) if known else None


def _share(worker: Worker, server: Server) -> Text:
    balance = server.balance
    even = (balance and balance.even_share) or 0.0
    largest = max(even, *(other.share or 0.0 for other in server.workers))
    hot = bool(
        balance
        and balance.hottest == worker.worker_id
        and balance.hot_ratio is not None
        and balance.noise_floor is not None
        and balance.hot_ratio > balance.noise_floor
    )
    drawn = bar(worker.share or 0.0, largest, 5)
    return Text(f"{percent(worker.share):>4}", "bold" if hot else "").append(f" {drawn:5}", "yellow" if hot else "cyan")


def _cpu(worker: Worker, _: Server) -> Text:
    load = worker.interpreter_load
    hot = "" if load is None else "bold red" if load >= _HOT else "yellow" if load >= _WARM else ""
    return Text(percent(load), hot)


def _lock(worker: Worker, _: Server) -> Text:
    """Write how many threads wait for the interpreter lock, and draw their share of the threads in service."""
    waiters = worker.lock_waiters
    if waiters is None:
        return Text(UNKNOWN)
    drawn = bar(waiters, worker.concurrency or 0.0, 3)
    return Text(f"{mean_count(waiters):>4} ").append(f"{drawn:3}", "red")


def _total_lock(server: Server) -> str:
    waiters = sum_known(server.workers, lambda worker: worker.lock_waiters)
    return UNKNOWN if waiters is None else f"{mean_count(waiters)} {'':3}"


def _state(worker: Worker, server: Server) -> Text:
    if server.state == "down":
        return Text(UNKNOWN)
    words = WORKERS[worker.state]
    return Text(f"{words.narrow:5}", words.terminal)


def _oldest(worker: Worker, server: Server) -> Text:
    value = worker.oldest_request_age
    is_stuck = value is not None and server.threads is not None and value >= server.threads.stuck_seconds
    return Text(age(value), "bold red" if is_stuck else "")


def _affinity(worker: Worker, server: Server) -> Text:
    mask = worker.affinity
    if mask is None:
        return Text("-")
    every = server.host.host_cpus if server.host else None
    return Text("all" if len(mask) == every else cpu_ranges(mask))


def _clock(worker: Worker, _: Server) -> Text:
    return Text(time.strftime("%H:%M:%S", time.localtime(worker.last_spawn)) if worker.last_spawn else "-")


def _restarts(worker: Worker) -> float | None:
    """Return a worker's restarts: uWSGI's respawns without the first spawn."""
    return None if worker.respawns is None else max(0, worker.respawns - 1)


def _busy(worker: Worker, server: Server, width: int) -> Text:
    return Text(f"{UNKNOWN:{width}}") if server.state == "down" else busy_bar(worker, width)


def _total_busy(server: Server) -> str:
    if server.state == "down":
        return UNKNOWN
    busy = sum_known(server.workers, lambda worker: worker.busy_threads)
    threads = sum_known(server.workers, lambda worker: worker.threads if worker.pid else None)
    return f"{number(busy)}/{number(threads)}" if busy is not None else ""


def _oldest_of_all(server: Server) -> str:
    known = [worker.oldest_request_age for worker in server.workers if worker.oldest_request_age is not None]
    return age(max(known)) if known else ""


def _figure(
    title: str, width: int, value: Value, text: Callable[[float | None], str], name: str = "", *, adds_up: bool = False
) -> Column:
    """Make a column that shows its sort key as `text` writes it. adds_up: its total is the sum."""

    def total(server: Server) -> str:
        known = sum_known(server.workers, value) if adds_up else None
        return "" if known is None else text(known)

    return Column(title, width, value, lambda worker, _: Text(text(value(worker))), total, name)


FIXED = (
    Column(
        "W",
        3,
        lambda worker: worker.worker_id,
        lambda worker, _: Text(str(worker.worker_id)),
        lambda _: "all",
        "number",
    ),
    _figure("PID", 7, lambda worker: worker.pid, lambda pid: f"{pid:.0f}" if pid else "-"),
    Column("STATE", 5, lambda worker: None, _state),
)
"""Columns that stay in place while the others scroll sideways."""

SCROLLED = (
    Column("SHARE     ", 10, lambda worker: worker.share, _share, name="share"),
    Column(
        "BUSY      ",
        10,
        lambda worker: worker.busy_threads,
        lambda worker, server: _busy(worker, server, 10),
        lambda server: f"{_total_busy(server):10}",
        "busy",
    ),
    Column(
        "CPU%",
        5,
        lambda worker: worker.interpreter_load,
        _cpu,
        lambda server: percent(sum_known(server.workers, lambda worker: worker.interpreter_load)),
        "cpu",
    ),
    Column(
        "LOCK    ",
        8,
        lambda worker: worker.lock_waiters,
        _lock,
        _total_lock,
        is_known=lambda server: any(worker.lock_waiters is not None for worker in server.workers),
    ),
    Column(
        "RESP",
        6,
        lambda worker: worker.response_time,
        lambda worker, _: Text(seconds_of(worker.response_time)),
        lambda server: seconds_of(server.flow.response_time if server.flow else None),
        "response",
    ),
    _figure("REQ/S", 5, lambda worker: worker.throughput, rate, adds_up=True),
    _figure("MEM", 5, lambda worker: worker.resident_bytes, size, "memory", adds_up=True),
    Column("OLDEST", 6, lambda worker: worker.oldest_request_age, _oldest, _oldest_of_all, "oldest"),
    _figure("EXC", 5, lambda worker: worker.exceptions, number, "exceptions", adds_up=True),
    _figure("HARA", 4, lambda worker: worker.harakiris, number, adds_up=True),
    _figure("RESTARTS", 8, _restarts, number, adds_up=True),
    _figure("AGE", 4, lambda worker: worker.age, age, "age"),
    _figure("LAST", 4, lambda worker: worker.last_cpu, lambda cpu: "-" if cpu is None else f"{cpu:.0f}"),
    _figure("REQ", 7, lambda worker: worker.requests, number, "requests", adds_up=True),
    _figure("LIFE", 4, lambda worker: worker.lifetime_share, percent),
    Column("AFFINITY", 9, lambda worker: None, _affinity),
    _figure("GROWTH", 6, lambda worker: worker.resident_growth, size, adds_up=True),
    _figure("TX", 6, lambda worker: worker.transmitted_bytes, size, adds_up=True),
    _figure("SIG", 5, lambda worker: worker.signals, number, adds_up=True),
    _figure("RUNTIME", 7, lambda worker: worker.running_time, age, adds_up=True),
    Column("SPAWNED", 8, lambda worker: worker.last_spawn, _clock),
)

COLUMNS = (*FIXED, *SCROLLED)

SORTS = {
    "s": "share",
    "r": "requests",
    "w": "response",
    "c": "cpu",
    "i": "cpu",
    "b": "busy",
    "m": "memory",
    "n": "number",
    "o": "oldest",
    "x": "exceptions",
    "g": "age",
}
"""The keys that sort the workers."""

_NARROW = 60  # terminal columns below which only the worker's number stays in place
_MORE = 5  # terminal columns of the mark that counts the columns out of view


COMPACT = (
    FIXED[0],
    FIXED[2],
    _figure("SHARE", 5, lambda worker: worker.share, percent, "share"),
    Column(
        "BUSY     ",
        9,
        lambda worker: worker.busy_threads,
        lambda worker, server: _busy(worker, server, 9),
        lambda server: f"{_total_busy(server):9}",
        "busy",
    ),
    next(column for column in SCROLLED if column.title == "CPU%"),
    next(column for column in SCROLLED if column.title == "RESP"),
)
"""The columns where workers stand beside each other, two of them on a terminal of 80 columns."""

_SIDE = sum(column.width + 1 for column in COMPACT) + 1
"""Columns of the terminal for one of them, with the space between two."""


def worker_table(
    server: Server,
    sort: str,
    reverse: bool,
    width: int,
    first_column: int = 0,
    text: str = "",
    most_rows: int | None = None,
) -> tuple[Page, int]:
    """Build the page of the workers that match a filter; returns also the first scrolled column in view. most_rows: if
    there are more workers, they stand beside each other, with fewer columns, until a key scrolls sideways."""
    across = (width + 1) // _SIDE
    if most_rows is not None and len(server.workers) > most_rows and across > 1:
        if first_column == 0:
            return _compact_table(server, sort, reverse, width, across, text), 0
        page, first = worker_table(server, sort, reverse, width, first_column - 1, text)
        return page, first + 1
    known = tuple(column for column in SCROLLED if column.is_known(server))
    fixed, scrolled = (FIXED, known) if width >= _NARROW else (FIXED[:1], (*FIXED[1:], *known))
    first = min(first_column, _last_first_column(fixed, scrolled, width))
    fitting = _count_fitting(fixed, scrolled, first, width)
    columns = [*fixed, *scrolled[first : first + fitting]]
    rows = [_row(worker, server, columns) for worker in sort_workers(server.workers, sort, reverse)]
    totals = _assemble([Text(column.total(server)) for column in columns], columns, "bold")
    shown = [row for row in rows if text.casefold() in row.plain.casefold()]
    return Page(_title(columns, sort, width, first, len(scrolled) - first - fitting), shown, totals), first


def _compact_table(server: Server, sort: str, reverse: bool, width: int, across: int, text: str) -> Page:
    """Build the table in which workers stand beside each other, in the order of a newspaper's columns."""
    cells = [_row(worker, server, COMPACT) for worker in sort_workers(server.workers, sort, reverse)]
    shown = [cell for cell in cells if text.casefold() in cell.plain.casefold()]
    down = -(-len(shown) // across)
    rows = []
    for place in range(down):
        row = Text()
        for cell in shown[place::down]:
            row.append_text(cell).append(" ")
        row.rstrip()
        rows.append(row)
    title, side = Text(style="reverse"), _title(COMPACT, sort, _SIDE, 0, 0)
    for _ in range(min(across, len(shown))):
        title.append_text(side)
    title.truncate(width - len(_ALL_COLUMNS), pad=True)
    title.append(_ALL_COLUMNS, "bold")
    totals = _assemble([Text(column.total(server)) for column in COMPACT], COMPACT, "bold")
    return Page(title, rows, totals)


_ALL_COLUMNS = "→"


def sort_workers(workers: Sequence[Worker], sort: str, reverse: bool) -> list[Worker]:
    """Sort workers: largest first (by number: smallest first), unknown values last."""
    value = next(column.value for column in COLUMNS if column.name == sort)
    descending = (sort != "number") != reverse
    return sort_by_figure(workers, value, descending=descending)


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
        cell.truncate(column.width, overflow="ellipsis")
        line.append(" " * (column.width - cell.cell_len))
        line.append_text(cell)
        line.append(" ")
    return line
