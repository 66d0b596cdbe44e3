"""The table of workers: as many columns as fit, the most telling first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

from uwsgi_headroom.analysis.formatting import duration
from uwsgi_headroom.analysis.stuck import STUCK_SECONDS
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.documents.workers import Worker
from uwsgi_headroom.terminal_text import bar

STATE_STYLES = {"busy": "green", "cheap": "magenta", "signal": "yellow", "pause": "blue", "starting": "yellow"}
"""As uwsgitop has them."""

_SHORT = {"never_spawned": "never", "starting": "start", "signal": "sig"}
_HOT, _WARM = 0.9, 0.7  # interpreter load


@dataclass(frozen=True, slots=True)
class Column:
    """`rank`: the larger, the sooner it is left out. `value`: what to sort by; `cell`: what to show."""

    title: str
    width: int
    rank: int
    value: Callable[[Worker], float | None]
    cell: Callable[[Worker, Server], Text]
    name: str = ""


def worker_table(server: Server, sort: str, reverse: bool, width: int) -> list[Text]:
    """The title and a line for every worker."""
    columns = _columns_that_fit(width)
    title = Text(style="reverse")
    for column in columns:
        title.append(f"{column.title:>{column.width}}", style="bold underline" if column.name == sort else "")
        title.append(" ")
    title.truncate(width, pad=True)
    return [title, *(_line(worker, server, columns) for worker in sort_workers(server.workers, sort, reverse))]


def sort_workers(workers: Sequence[Worker], sort: str, reverse: bool) -> list[Worker]:
    """The largest first (of the worker's number: the smallest); what is not known last."""
    value = next(column.value for column in COLUMNS if column.name == sort)
    descending = (sort != "number") != reverse
    known = [worker for worker in workers if value(worker) is not None]
    unknown = [worker for worker in workers if value(worker) is None]
    return sorted(known, key=lambda worker: value(worker) or 0.0, reverse=descending) + unknown


def _columns_that_fit(width: int) -> list[Column]:
    kept: set[str] = set()
    room = width + 1
    for column in sorted(COLUMNS, key=lambda column: column.rank):
        if room < column.width + 1:
            break
        room -= column.width + 1
        kept.add(column.title)
    return [column for column in COLUMNS if column.title in kept]


def _line(worker: Worker, server: Server, columns: Iterable[Column]) -> Text:
    line = Text(style="" if worker.pid else "dim")
    for column in columns:
        cell = column.cell(worker, server)
        cell.truncate(column.width)
        line.append(" " * (column.width - cell.cell_len))
        line.append_text(cell)
        line.append(" ")
    return line


def percent(part: float | None) -> str:
    """0.43 is `43%`."""
    return "-" if part is None else f"{100 * part:.0f}%"


def age(seconds: float | None) -> str:
    """12 is `12s`, 90 is `90s`, 600 is `10m`."""
    if seconds is None:
        return "-"
    for limit, divisor, unit in ((100, 1, "s"), (6000, 60, "m"), (360_000, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.0f}{unit}"
    return f"{seconds / 86400:.0f}d"


def size(count: float | None) -> str:
    """Bytes: 52,000,000 is `52M`."""
    if count is None:
        return "-"
    for limit, divisor, unit in ((1e4, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G")):
        if abs(count) < limit:
            scaled = count / divisor
            return f"{scaled:.1f}{unit}" if unit == "G" and scaled < 10 else f"{scaled:.0f}{unit}"
    return f"{count / 1e12:.1f}T"


def number(value: float | None) -> str:
    """12,345 is `12345`; seven digits and more are millions: `12.3M`."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value < 1e6 else f"{value / 1e6:.1f}M" if value < 1e9 else f"{value / 1e9:.1f}G"


def rate(value: float | None) -> str:
    """Of requests a second."""
    return "-" if value is None else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def busy_bar(worker: Worker, cells: int) -> Text:
    """How many of its threads are busy."""
    if worker.busy_threads is None or not worker.threads:
        return Text("-")
    full = worker.busy_threads >= worker.threads
    drawn = bar(worker.busy_threads, worker.threads, cells)
    return Text(f"{worker.busy_threads}/{worker.threads} ").append(f"{drawn:{cells}}", "red" if full else "green")


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
    drawn = bar(worker.share or 0.0, largest, 6)
    return Text(percent(worker.share), "bold" if hot else "").append(f" {drawn:6}", "yellow" if hot else "cyan")


def _load(worker: Worker, _: Server) -> Text:
    load = worker.interpreter_load
    if load is None:
        return Text("-")
    return Text(f"{load:.2f}", "bold red" if load >= _HOT else "yellow" if load >= _WARM else "")


def _state(worker: Worker, _: Server) -> Text:
    return Text(f"{_SHORT.get(worker.state, worker.state):5}", STATE_STYLES.get(worker.state, ""))


def _oldest(worker: Worker, _: Server) -> Text:
    value = worker.oldest_request_age
    return Text(age(value), "bold red" if value is not None and value >= STUCK_SECONDS else "")


def _affinity(worker: Worker, server: Server) -> Text:
    mask = worker.affinity
    if mask is None:
        return Text("-")
    every = server.host.host_cpus if server.host else None
    return Text("all" if len(mask) == every else cpu_ranges(mask))


def cpu_ranges(cpus: Sequence[int]) -> str:
    """[0, 1, 2, 5] is `0-2,5`, as the kernel writes it."""
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][-1] + 1:
            spans[-1][1:] = [cpu]
        else:
            spans.append([cpu])
    return ",".join("-".join(map(str, span)) for span in spans)


def _clock(worker: Worker, _: Server) -> Text:
    return Text(time.strftime("%H:%M:%S", time.localtime(worker.last_spawn)) if worker.last_spawn else "-")


def _figure(
    title: str,
    width: int,
    rank: int,
    value: Callable[[Worker], float | None],
    text: Callable[[float | None], str],
    name: str = "",
) -> Column:
    """A column that shows what it is sorted by, as `text` writes it."""
    return Column(title, width, rank, value, lambda worker, _: Text(text(value(worker))), name)


COLUMNS = (
    _figure("W", 3, 0, lambda worker: worker.worker_id, str, "number"),
    _figure("PID", 7, 7, lambda worker: worker.pid, lambda pid: str(pid or "-")),
    Column("STATE", 5, 6, lambda worker: None, _state),
    Column("SHARE     ", 10, 1, lambda worker: worker.share, _share, "share"),
    _figure("LIFE", 4, 8, lambda worker: worker.lifetime_share, percent),
    Column("BUSY      ", 11, 2, lambda worker: worker.busy_threads, lambda worker, _: busy_bar(worker, 6), "busy"),
    _figure("REQ/S", 5, 5, lambda worker: worker.throughput, rate),
    _figure(
        "RESP",
        6,
        4,
        lambda worker: worker.response_time,
        lambda seconds: "-" if seconds is None else duration(seconds),
        "response",
    ),
    Column("LOAD", 4, 3, lambda worker: worker.interpreter_load, _load, "interpreter"),
    _figure("CPU", 3, 9, lambda worker: worker.last_cpu, lambda cpu: "-" if cpu is None else str(cpu)),
    _figure("MEM", 5, 10, lambda worker: worker.resident_bytes, size, "memory"),
    _figure("AGE", 4, 11, lambda worker: worker.age, age, "age"),
    Column("OLDEST", 6, 12, lambda worker: worker.oldest_request_age, _oldest, "oldest"),
    _figure("REQ", 7, 13, lambda worker: worker.requests, number, "requests"),
    _figure("EXC", 5, 14, lambda worker: worker.exceptions, number, "exceptions"),
    _figure("HARA", 4, 15, lambda worker: worker.harakiris, number),
    _figure("SPAWNS", 6, 16, lambda worker: worker.respawns, number),
    Column("AFFINITY", 9, 17, lambda worker: None, _affinity),
    _figure("GROWTH", 6, 18, lambda worker: worker.resident_growth, size),
    _figure("TX", 6, 19, lambda worker: worker.transmitted_bytes, size),
    _figure("SIG", 5, 20, lambda worker: worker.signals, number),
    _figure("RUNTIME", 7, 21, lambda worker: worker.running_time, age),
    Column("SPAWNED", 8, 22, lambda worker: worker.last_spawn, _clock),
)

SORTS = {
    "s": "share",
    "r": "requests",
    "w": "response",
    "i": "interpreter",
    "b": "busy",
    "m": "memory",
    "n": "number",
    "o": "oldest",
    "x": "exceptions",
    "g": "age",
}
"""The keys that sort."""
