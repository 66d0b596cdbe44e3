"""Builds the table of workers for `check` and `top`: as many columns as fit, and a row of totals.

The columns stand in the order of what they say: the most informative first. In `top`, those that do not fit scroll into
view. A cell is made of texts with a style of a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

from msgspec import Struct

from uwsgi_headroom.check.narrow_figures import UNKNOWN, age, cpu_ranges, number, percent, rate, seconds_of, size
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.documents.workers import WorkerSection
from uwsgi_headroom.terminal_text import bar
from uwsgi_headroom.words.formats import mean_count
from uwsgi_headroom.words.states import WORKERS

_HOT, _WARM = 0.9, 0.7  # CPUs of one interpreter

Value = Callable[[WorkerSection], float | None]

Cells = tuple[tuple[str, str], ...]
"""Texts, each with its style."""


def _plain(text: str, style: str = "") -> Cells:
    return ((text, style),)


class Column(Struct, frozen=True):
    title: str
    width: int
    value: Value
    """The sort key."""
    cell: Callable[[WorkerSection, ServerDocument], Cells]
    total: Callable[[ServerDocument], str] = lambda _: ""
    name: str = ""
    """Of the order by this column; empty without one."""
    is_known: Callable[[ServerDocument], bool] = lambda _: True
    """Whether a server has any such value: else the column is left out."""


def busy_bar(worker: WorkerSection, width: int) -> Cells:
    """Write and draw how many of a worker's threads are busy, in this many columns."""
    if worker.busy_threads is None or not worker.threads:
        return _plain(UNKNOWN)
    full = worker.busy_threads >= worker.threads
    number = f"{worker.busy_threads:>{len(str(worker.threads))}}/{worker.threads} "
    cells = max(0, width - len(number))
    drawn = bar(worker.busy_threads, worker.threads, cells)
    return (number, ""), (f"{drawn:{cells}}", "red" if full else "green")


def sum_known(workers: Iterable[WorkerSection], value: Value) -> float | None:
    """Sum a value over the workers with a known value; None if there are none."""
    known = [each for each in map(value, workers) if each is not None]
    return sum(known) if known else None


def _share(worker: WorkerSection, server: ServerDocument) -> Cells:
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
    return (f"{percent(worker.share):>4}", "bold" if hot else ""), (f" {drawn:5}", "yellow" if hot else "cyan")


def _cpu(worker: WorkerSection, _: ServerDocument) -> Cells:
    load = worker.interpreter_load
    hot = "" if load is None else "bold red" if load >= _HOT else "yellow" if load >= _WARM else ""
    return _plain(percent(load), hot)


def _lock(worker: WorkerSection, _: ServerDocument) -> Cells:
    """Write how many threads wait for the interpreter lock, and draw their share of the threads in service."""
    waiters = worker.lock_waiters
    if waiters is None:
        return _plain(UNKNOWN)
    drawn = bar(waiters, worker.concurrency or 0.0, 3)
    return (f"{mean_count(waiters):>4} ", ""), (f"{drawn:3}", "red")


def _total_lock(server: ServerDocument) -> str:
    waiters = sum_known(server.workers, lambda worker: worker.lock_waiters)
    return UNKNOWN if waiters is None else f"{mean_count(waiters)} {'':3}"


def _state(worker: WorkerSection, server: ServerDocument) -> Cells:
    if server.state == "down":
        return _plain(UNKNOWN)
    words = WORKERS[worker.state]
    return _plain(f"{words.narrow:5}", words.terminal)


def _oldest(worker: WorkerSection, server: ServerDocument) -> Cells:
    value = worker.oldest_request_age
    is_stuck = value is not None and server.threads is not None and value >= server.threads.stuck_seconds
    return _plain(age(value), "bold red" if is_stuck else "")


def _affinity(worker: WorkerSection, server: ServerDocument) -> Cells:
    mask = worker.affinity
    if mask is None:
        return _plain("-")
    every = server.host.host_cpus if server.host else None
    return _plain("all" if len(mask) == every else cpu_ranges(mask))


def _clock(worker: WorkerSection, _: ServerDocument) -> Cells:
    return _plain(time.strftime("%H:%M:%S", time.localtime(worker.last_spawn)) if worker.last_spawn else "-")


def _restarts(worker: WorkerSection) -> float | None:
    """Return a worker's restarts: uWSGI's respawns without the first spawn."""
    return None if worker.respawns is None else max(0, worker.respawns - 1)


def _busy(worker: WorkerSection, server: ServerDocument, width: int) -> Cells:
    return _plain(f"{UNKNOWN:{width}}") if server.state == "down" else busy_bar(worker, width)


def _total_busy(server: ServerDocument) -> str:
    if server.state == "down":
        return UNKNOWN
    busy = sum_known(server.workers, lambda worker: worker.busy_threads)
    threads = sum_known(server.workers, lambda worker: worker.threads if worker.pid else None)
    return f"{number(busy)}/{number(threads)}" if busy is not None else ""


def _oldest_of_all(server: ServerDocument) -> str:
    known = [worker.oldest_request_age for worker in server.workers if worker.oldest_request_age is not None]
    return age(max(known)) if known else ""


def _figure(
    title: str, width: int, value: Value, text: Callable[[float | None], str], name: str = "", *, adds_up: bool = False
) -> Column:
    """Make a column that shows its sort key as `text` writes it. adds_up: its total is the sum."""

    def total(server: ServerDocument) -> str:
        known = sum_known(server.workers, value) if adds_up else None
        return "" if known is None else text(known)

    return Column(title, width, value, lambda worker, _: _plain(text(value(worker))), total, name)


FIXED = (
    Column(
        "W",
        3,
        lambda worker: worker.worker_id,
        lambda worker, _: _plain(str(worker.worker_id)),
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
        lambda worker, _: _plain(seconds_of(worker.response_time)),
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
    "b": "busy",
    "m": "memory",
    "n": "number",
    "o": "oldest",
    "x": "exceptions",
    "g": "age",
}
"""The keys that sort the workers."""


def sort_workers(workers: Sequence[WorkerSection], sort: str) -> list[WorkerSection]:
    """Sort workers: largest first (by number: smallest first), unknown values last."""
    value = next(column.value for column in COLUMNS if column.name == sort)
    return sort_by_figure(workers, value, descending=sort != "number")


T = TypeVar("T")


def sort_by_figure(rows: Sequence[T], figure: Callable[[T], float | None], *, descending: bool = True) -> list[T]:
    """Sort rows by a figure. Rows without one are last, in either direction."""
    known = [row for row in rows if figure(row) is not None]
    unknown = [row for row in rows if figure(row) is None]
    return sorted(known, key=lambda row: figure(row) or 0.0, reverse=descending) + unknown


def list_scrolled(server: ServerDocument) -> tuple[Column, ...]:
    """The columns that a server has values for, without those that stay in place."""
    return tuple(column for column in SCROLLED if column.is_known(server))


def count_fitting(columns: Sequence[Column], room: int) -> int:
    """Count how many columns, from the first on, fit into so many columns of the terminal."""
    return sum(end <= room for end in accumulate(column.width + 1 for column in columns))


def make_row(worker: WorkerSection, server: ServerDocument, columns: Sequence[Column]) -> Cells:
    """Make the row of a worker."""
    return _assemble([column.cell(worker, server) for column in columns], columns)


def make_totals(server: ServerDocument, columns: Sequence[Column]) -> Cells:
    """Make the row of totals."""
    return _assemble([_plain(column.total(server)) for column in columns], columns)


def _assemble(cells: Sequence[Cells], columns: Sequence[Column]) -> Cells:
    """Put cells beside each other, each at the right end of its column. An ellipsis replaces what is too long."""
    row: list[tuple[str, str]] = []
    for cell, column in zip(cells, columns, strict=True):
        fitting = _cut(cell, column.width)
        length = sum(len(text) for text, _ in fitting)
        row += [(" " * (column.width - length), ""), *fitting, (" ", "")]
    return tuple(row)


def _cut(cell: Cells, width: int) -> Cells:
    whole = "".join(text for text, _ in cell)
    return cell if len(whole) <= width else _plain(f"{whole[: width - 1]}…", cell[0][1])


def render_plain(server: ServerDocument, width: int, only: Collection[int] = ()) -> Iterator[str]:
    """Write the table without colours, the busiest worker first, with the columns that fit, and totals. only: the ids
    of those to write; empty for all."""
    columns = (*FIXED, *list_scrolled(server))
    columns = columns[: count_fitting(columns, width + 1)]
    yield "".join(f"{column.title:>{column.width}} " for column in columns).rstrip()
    for worker in sort_workers([each for each in server.workers if not only or each.worker_id in only], "share"):
        yield _join(make_row(worker, server, columns))
    yield _join(make_totals(server, columns))


def _join(row: Cells) -> str:
    return "".join(text for text, _ in row).rstrip()
