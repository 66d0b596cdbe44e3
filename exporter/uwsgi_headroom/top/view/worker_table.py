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
    for it in columns:
        title.append(f"{it.title:>{it.width}}", style="bold underline" if it.name == sort else "")
        title.append(" ")
    title.truncate(width, pad=True)
    return [title, *(_line(worker, server, columns) for worker in sort_workers(server.workers, sort, reverse))]


def sort_workers(workers: Sequence[Worker], sort: str, reverse: bool) -> list[Worker]:
    """The largest first (of the worker's number: the smallest); what is not known last."""
    value = next(it.value for it in COLUMNS if it.name == sort)
    descending = (sort != "number") != reverse
    known = [it for it in workers if value(it) is not None]
    unknown = [it for it in workers if value(it) is None]
    return sorted(known, key=lambda it: value(it) or 0.0, reverse=descending) + unknown


def _columns_that_fit(width: int) -> list[Column]:
    kept: set[str] = set()
    room = width + 1
    for it in sorted(COLUMNS, key=lambda it: it.rank):
        if room < it.width + 1:
            break
        room -= it.width + 1
        kept.add(it.title)
    return [it for it in COLUMNS if it.title in kept]


def _line(worker: Worker, server: Server, columns: Iterable[Column]) -> Text:
    line = Text(style="" if worker.pid else "dim")
    for it in columns:
        cell = it.cell(worker, server)
        cell.truncate(it.width)
        line.append(" " * (it.width - cell.cell_len))
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
    largest = max(even, *(it.share or 0.0 for it in server.workers))
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
    return ",".join("-".join(map(str, it)) for it in spans)


def _clock(worker: Worker, _: Server) -> Text:
    return Text(time.strftime("%H:%M:%S", time.localtime(worker.last_spawn)) if worker.last_spawn else "-")


def _plain(text: Callable[[Worker], str]) -> Callable[[Worker, Server], Text]:
    return lambda worker, _: Text(text(worker))


COLUMNS = (
    Column("W", 3, 0, lambda it: it.worker_id, _plain(lambda it: str(it.worker_id)), "number"),
    Column("PID", 7, 7, lambda it: it.pid, _plain(lambda it: str(it.pid or "-"))),
    Column("STATE", 5, 6, lambda it: None, _state),
    Column("SHARE     ", 10, 1, lambda it: it.share, _share, "share"),
    Column("LIFE", 4, 8, lambda it: it.lifetime_share, _plain(lambda it: percent(it.lifetime_share))),
    Column("BUSY      ", 11, 2, lambda it: it.busy_threads, lambda it, _: busy_bar(it, 6), "busy"),
    Column("REQ/S", 5, 5, lambda it: it.throughput, _plain(lambda it: rate(it.throughput))),
    Column(
        "RESP",
        6,
        4,
        lambda it: it.response_time,
        _plain(lambda it: "-" if it.response_time is None else duration(it.response_time)),
        "response",
    ),
    Column("LOAD", 4, 3, lambda it: it.interpreter_load, _load, "interpreter"),
    Column("CPU", 3, 9, lambda it: it.last_cpu, _plain(lambda it: "-" if it.last_cpu is None else str(it.last_cpu))),
    Column("MEM", 5, 10, lambda it: it.resident_bytes, _plain(lambda it: size(it.resident_bytes)), "memory"),
    Column("AGE", 4, 11, lambda it: it.age, _plain(lambda it: age(it.age)), "age"),
    Column("OLDEST", 6, 12, lambda it: it.oldest_request_age, _oldest, "oldest"),
    Column("REQ", 7, 13, lambda it: it.requests, _plain(lambda it: number(it.requests)), "requests"),
    Column("EXC", 5, 14, lambda it: it.exceptions, _plain(lambda it: number(it.exceptions)), "exceptions"),
    Column("HARA", 4, 15, lambda it: it.harakiris, _plain(lambda it: number(it.harakiris))),
    Column("SPAWNS", 6, 16, lambda it: it.respawns, _plain(lambda it: number(it.respawns))),
    Column("AFFINITY", 9, 17, lambda it: None, _affinity),
    Column("GROWTH", 6, 18, lambda it: it.resident_growth, _plain(lambda it: size(it.resident_growth))),
    Column("TX", 6, 19, lambda it: it.transmitted_bytes, _plain(lambda it: size(it.transmitted_bytes))),
    Column("SIG", 5, 20, lambda it: it.signals, _plain(lambda it: number(it.signals))),
    Column("RUNTIME", 7, 21, lambda it: it.running_time, _plain(lambda it: age(it.running_time))),
    Column("SPAWNED", 8, 22, lambda it: it.last_spawn, _clock),
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
