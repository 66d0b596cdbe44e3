"""Writes tables for `check` and `top`, such as the table of workers, with figures in few columns.

The most informative columns are first, as many as fit; in `top`, the others scroll into view. A cell is made of texts
with a style of a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf
from operator import attrgetter
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.balance import Balance
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.documents.subjects import WorkerSection
from uwsgi_headroom.terminal_text import bar
from uwsgi_headroom.words import formats
from uwsgi_headroom.words.formats import mean_count
from uwsgi_headroom.words.states import WORKERS

UNKNOWN = "-"


def find_field(document: object, place: str) -> Any:
    """A field of a document, such as `flow.queue_wait`; None without its section."""
    for name in place.split("."):
        document = getattr(document, name, None)
    return document


def _or_unknown(write: Callable[[float], str]) -> Callable[[float | None], str]:
    def written(value: float | None) -> str:
        return UNKNOWN if value is None else write(value)

    return written


@_or_unknown
def percent(part: float) -> str:
    """Write a share: 0.43 is `43%`, 0.0766 is `7.7%`."""
    return formats.percent(part).replace(" ", "")


@_or_unknown
def age(seconds: float) -> str:
    """Write an age: 12 is `12s`, 90 is `90s`, 600 is `10m`; below 10 s, whole seconds are enough."""
    return f"{formats.fixed(seconds)}s" if seconds < 9.5 else formats.narrow_duration(seconds)


@_or_unknown
def size(count: float) -> str:
    """Write bytes: 52,000,000 is `52M`, 1,200,000,000 is `1.2G`; of memory that shrinks: `-52M`."""
    return "-" * (count < 0) + formats.byte_size(abs(count)).removesuffix("B").replace(" ", "")


@_or_unknown
def number(value: float) -> str:
    """Write a count: 12,345 is `12345`; a million and more is in millions: `12.3M`."""
    if value < 1e6:
        return f"{value:.0f}"
    return f"{value / 1e6:.1f}M" if value < 1e9 else f"{value / 1e9:.1f}G"


@_or_unknown
def rate(value: float) -> str:
    """Write requests per second: `62.4`, `12345`, `1.2M`."""
    return formats.amount(value).replace(",", "") if value < 1e6 else number(value)


@_or_unknown
def seconds_of(value: float) -> str:
    """Write a response time in at most six columns: 0.0672 is `67 ms`, 150 is `2.5m`."""
    return formats.fit_duration(value, 6)


def cpu_ranges(cpus: Sequence[int]) -> str:
    """Write CPUs as the kernel does: [0, 1, 2, 5] is `0-2,5`."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][-1] + 1:
            spans[-1][1:] = [cpu]
        else:
            spans.append([cpu])
    return ",".join("-".join(map(str, span)) for span in spans)


R = TypeVar("R")
W = TypeVar("W")

Cells = tuple[tuple[str, str], ...]
"""Texts, each with its style."""


class Column(Struct, Generic[R, W], frozen=True):
    """A column of rows R, such as workers, of a whole W, such as their server."""

    title: str
    width: int
    cell: Callable[[R, W], Cells]
    total: Callable[[W], str] = lambda _: ""
    value: Callable[[R], float | None] = lambda _: None
    """The sort key."""
    key: str = ""
    """Of the keyboard, which sorts by this column."""
    name: str = ""
    """Of the order by this column; empty without one."""


def plain(text: str, style: str = "") -> Cells:
    return ((text, style),)


def sort_by_figure(rows: Sequence[R], figure: Callable[[R], float | None], *, descending: bool = True) -> list[R]:
    """Sort rows by a figure. Rows without one are last, in either direction."""
    known = [row for row in rows if figure(row) is not None]
    unknown = [row for row in rows if figure(row) is None]
    return sorted(known, key=lambda row: figure(row) or 0.0, reverse=descending) + unknown


def count_fitting(columns: Sequence[Column[R, W]], room: int) -> int:
    return sum(end <= room for end in accumulate(column.width + 1 for column in columns))


def make_row(row: R, whole: W, columns: Sequence[Column[R, W]]) -> Cells:
    """Make a row: cells beside each other, aligned to the right. An ellipsis replaces what is too long."""
    return _assemble([(column.cell(row, whole), column.width) for column in columns])


def make_totals(whole: W, columns: Sequence[Column[R, W]]) -> Cells:
    return _assemble([(plain(column.total(whole)), column.width) for column in columns])


def _assemble(cells: Iterable[tuple[Cells, int]]) -> Cells:
    row: list[tuple[str, str]] = []
    for cell, width in cells:
        text = "".join(part for part, _ in cell)
        if len(text) > width:
            row += plain(f"{text[: width - 1]}…", cell[0][1])
        else:
            row += [(" " * (width - len(text)), ""), *cell]
        row.append((" ", ""))
    return tuple(row)


WorkerColumn = Column[WorkerSection, ServerDocument]


def stuck_age(server: ServerDocument) -> float:
    """The seconds from which on a request in service counts as stuck."""
    seconds: float = find_field(server, "threads.stuck_seconds") or inf
    return seconds


def alarm(value: float | None, *levels: tuple[float, str]) -> str:
    """The style of a value: of the first level, a least value, that it reaches."""
    return next((style for least, style in levels if value is not None and value >= least), "")


def busy_bar(worker: WorkerSection, width: int) -> Cells:
    busy, threads = worker.busy_threads, worker.threads
    if busy is None or not threads:
        return plain(UNKNOWN)
    number = f"{busy:>{len(str(threads))}}/{threads} "
    cells = max(0, width - len(number))
    return (number, ""), (f"{bar(busy, threads, cells):{cells}}", alarm(busy, (threads, "red"), (0, "green")))


Value = Callable[[WorkerSection], float | None]
Levels = Sequence[tuple[float, str]]


def _list_known(server: ServerDocument, value: Value) -> list[float]:
    return [each for each in map(value, server.workers) if each is not None]


_HOT = {True: ("bold", "yellow"), False: ("", "cyan")}


def _share(worker: WorkerSection, server: ServerDocument) -> Cells:
    balance = server.balance or Balance(active=0)
    largest = max(balance.even_share or 0.0, *(other.share or 0.0 for other in server.workers))
    is_uneven = balance.noise_floor is not None and (balance.hot_ratio or 0.0) > balance.noise_floor
    style, colour = _HOT[is_uneven and balance.hottest == worker.worker_id]
    return (f"{percent(worker.share):>4}", style), (f" {bar(worker.share or 0.0, largest, 5):5}", colour)


def _mean_response(server: ServerDocument) -> str:
    return seconds_of(find_field(server, "flow.response_time"))


def _lock(worker: WorkerSection, _: ServerDocument) -> Cells:
    """Write how many threads wait for the interpreter lock, and draw their share of the threads in service."""
    waiters = worker.lock_waiters
    if waiters is None:
        return plain(UNKNOWN)
    return (f"{mean_count(waiters):>4} ", ""), (f"{bar(waiters, worker.concurrency or 0.0, 3):3}", "red")


def _total_lock(server: ServerDocument) -> str:
    return f"{mean_count(sum(_list_known(server, attrgetter('lock_waiters'))))} {'':3}"


def _state(worker: WorkerSection, server: ServerDocument) -> Cells:
    if server.state == "down":
        return plain(UNKNOWN)
    words = WORKERS[worker.state]
    return plain(f"{words.narrow:5}", words.terminal)


def _busy(worker: WorkerSection, server: ServerDocument) -> Cells:
    return plain(f"{UNKNOWN:10}") if server.state == "down" else busy_bar(worker, 10)


def _total_busy(server: ServerDocument) -> str:
    if server.state == "down":
        return f"{UNKNOWN:10}"
    busy = _list_known(server, attrgetter("busy_threads"))
    threads = [worker.threads for worker in server.workers if worker.pid and worker.threads is not None]
    total = number(sum(threads)) if threads else UNKNOWN
    return f"{f'{number(sum(busy))}/{total}' if busy else '':10}"


def _affinity(worker: WorkerSection, server: ServerDocument) -> Cells:
    mask = worker.affinity
    if mask is None:
        return plain(UNKNOWN)
    return plain("all" if len(mask) == find_field(server, "host.host_cpus") else cpu_ranges(mask))


@_or_unknown
def clock(moment: float) -> str:
    """Write epoch seconds as the local time of day: `14:02:07`."""
    return time.strftime("%H:%M:%S", time.localtime(moment))


@_or_unknown
def _plain_number(value: float) -> str:
    return f"{value:.0f}"


def _figure(
    title: str,
    width: int,
    value: Value,
    text: Callable[[float | None], str],
    *sort: str,
    total: Callable[[list[float]], float] | None = None,
    unknown: str = "",
    levels: Callable[[ServerDocument], Levels] = lambda _: (),
) -> WorkerColumn:
    """Make a column of figures. total: makes the total of those that are known; unknown: the total of none; levels: of
    `alarm`."""

    def write_cell(worker: WorkerSection, server: ServerDocument) -> Cells:
        return plain(text(value(worker)), alarm(value(worker), *levels(server)))

    def write_total(server: ServerDocument) -> str:
        known = _list_known(server, value)
        return text(total(known)) if total and known else unknown

    return Column(title, width, write_cell, write_total, value, *sort)


def _loads(_: ServerDocument) -> Levels:
    return (0.9, "bold red"), (0.7, "yellow")


def _ages(server: ServerDocument) -> Levels:
    return ((stuck_age(server), "bold red"),)


FIXED: tuple[WorkerColumn, ...] = (
    _figure("W", 3, attrgetter("worker_id"), _plain_number, "n", "number", unknown="all"),
    _figure("PID", 7, attrgetter("pid"), lambda pid: _plain_number(pid or None)),
    Column("STATE", 5, _state),
)
"""Columns that stay in place while the others scroll sideways."""

_LOCK: WorkerColumn = Column("LOCK    ", 8, _lock, _total_lock, attrgetter("lock_waiters"))

SCROLLED: tuple[WorkerColumn, ...] = (
    Column("SHARE     ", 10, _share, value=attrgetter("share"), key="s", name="share"),
    Column("BUSY      ", 10, _busy, _total_busy, attrgetter("busy_threads"), "b", "busy"),
    _figure("CPU%", 5, attrgetter("interpreter_load"), percent, "c", "CPU%", total=sum, unknown=UNKNOWN, levels=_loads),
    _LOCK,
    replace(_figure("RESP", 6, attrgetter("response_time"), seconds_of, "w", "response time"), total=_mean_response),
    _figure("REQ/S", 5, attrgetter("throughput"), rate, total=sum),
    _figure("MEM", 5, attrgetter("resident_bytes"), size, "m", "memory", total=sum),
    _figure("OLDEST", 6, attrgetter("oldest_request_age"), age, "o", "oldest", total=max, levels=_ages),
    _figure("EXC", 5, attrgetter("exceptions"), number, total=sum),
    _figure("HARA", 4, attrgetter("harakiris"), number, total=sum),
    _figure("RESTARTS", 8, lambda worker: worker.respawns and worker.respawns - 1, number, total=sum),  # not the first
    _figure("AGE", 4, attrgetter("age"), age),
    _figure("LAST", 4, attrgetter("last_cpu"), _plain_number),
    _figure("REQ", 7, attrgetter("requests"), number, "r", "requests", total=sum),
    _figure("LIFE", 4, attrgetter("lifetime_share"), percent),
    Column("AFFINITY", 9, _affinity),
    _figure("GROWTH", 6, attrgetter("resident_growth"), size, total=sum),
    _figure("TX", 6, attrgetter("transmitted_bytes"), size, total=sum),
    _figure("SIG", 5, attrgetter("signals"), number, total=sum),
    _figure("RUNTIME", 7, attrgetter("running_time"), age, total=sum),
    Column("SPAWNED", 8, lambda worker, _: plain(clock(worker.last_spawn or None))),
)

COLUMNS = (*FIXED, *SCROLLED)

SORTS = {column.key: column.name for column in (*SCROLLED, *FIXED) if column.key}
"""The keys that sort the workers."""


def sort_workers(workers: Sequence[WorkerSection], sort: str) -> list[WorkerSection]:
    """Sort workers: largest first (by number: smallest first), unknown values last."""
    value = next(column.value for column in COLUMNS if column.name == sort)
    return sort_by_figure(workers, value, descending=sort != "number")


def list_scrolled(server: ServerDocument) -> tuple[WorkerColumn, ...]:
    """The columns without those that stay in place, and without LOCK if no worker has a value."""
    waits = any(worker.lock_waiters is not None for worker in server.workers)
    return tuple(column for column in SCROLLED if column is not _LOCK or waits)


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
