"""Measures what waits cost: the exporter's CPU, and the throughput and latency of a busy uWSGI.

`python3 -m tools.bench.waits.cost`. Two exporters, with and without waits, take turns beside one server, in the order A
B B A, so that other activity of the machine affects both.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator

from tools.bench import exporters, load, table
from tools.bench.waits.cases import Case
from tools.bench.waits.run import APP, program
from tools.support import real_uwsgi

TURNS = "ABBAABBA"
SECONDS = 8.0
SIZES = ((2, 8, 8), (8, 8, 32), (64, 16, 32), (64, 16, 1000))
"""Workers, threads of each, and requests in flight."""

ON = exporters.OURS[exporters.EVERYTHING]
OFF = f"{ON} --waits false"


def main() -> None:
    print(_cpu_table(), flush=True)
    print(f"\n{_throughput_table()}\n\n{table.machine()}")


def _cpu_table() -> str:
    """The exporter's CPU, in per cent of one, per size: sampling only, without scrapes."""
    rows = []
    for workers, threads, requests in SIZES:
        with (
            real_uwsgi.uwsgi(
                "--processes", str(workers), "--threads", str(threads), "--disable-logging", "--listen", "100"
            ) as server,
            load.in_flight(server, requests),
        ):
            on, off = _measure(server.stats)
        more = statistics.median(a - b for a, b in zip(on, off, strict=True))
        rows.append(f"{workers}x{threads}, {requests} in flight | {_spread(off)} | {_spread(on)} | {more:+.2f}")
    return table.render_table("server | without waits, % of a CPU | with waits, % of a CPU | more (target: 1)", rows)


def _measure(stats: str) -> tuple[list[float], list[float]]:
    with contextlib.ExitStack() as stack:
        both = [stack.enter_context(exporters.running("ours", command, stats)) for command in (ON, OFF)]
        time.sleep(5)
        used: tuple[list[float], list[float]] = ([], [])
        for _ in range(6):
            before, start = [each.cpu_seconds() for each in both], time.monotonic()
            time.sleep(SECONDS / 2)
            for each, exporter, earlier in zip(used, both, before, strict=True):
                each.append(100 * (exporter.cpu_seconds() - earlier) / (time.monotonic() - start))
        return used


def _throughput_table() -> str:
    """Requests per second and their time in service of a 2x8 whose clients never pause, beside either exporter."""
    case = Case("busy", 2, 8, 0, ("cpu:5,sleep:10",))
    figures: dict[str, list[tuple[float, float]]] = {"A": [], "B": []}
    with contextlib.ExitStack() as stack:
        records = stack.enter_context(tempfile.TemporaryDirectory(prefix="headroom-"))
        os.environ |= {"BENCH_RECORDS": records, "BENCH_BACKENDS": "1,1"}
        server = stack.enter_context(
            real_uwsgi.uwsgi("--processes", "2", "--threads", "8", "--disable-logging", app=APP)
        )
        stack.enter_context(program(case, "tools.bench.waits.clients", str(server.http), case.plans[0], "12", "0", "0"))
        for turn in TURNS:
            with exporters.running("ours", ON if turn == "A" else OFF, server.stats) as exporter:
                time.sleep(3)
                figures[turn].append(_flow(exporter))
    rows = [
        f"{name} | {_spread([rate for rate, _ in figures[turn]])} | {_spread([each for _, each in figures[turn]])}"
        for turn, name in (("B", "without waits"), ("A", "with waits"))
    ]
    pairs = list(zip(figures["A"], figures["B"], strict=True))
    ratios = [[a[place] / b[place] for a, b in pairs] for place in (0, 1)]
    rows.append("with / without | " + " | ".join(_spread(each) for each in ratios))
    return table.render_table("exporter | requests/s | ms in service", rows)


def _flow(exporter: exporters.Exporter) -> tuple[float, float]:
    """Requests per second and milliseconds of each, from uWSGI's own counters."""
    (requests, running), start = _counters(exporter), time.monotonic()
    time.sleep(SECONDS)
    (more, longer), seconds = _counters(exporter), time.monotonic() - start
    return (more - requests) / seconds, 1e3 * (longer - running) / (more - requests)


def _counters(exporter: exporters.Exporter) -> tuple[float, float]:
    return _sum(exporter, "uwsgi_worker_requests_total"), _sum(exporter, "uwsgi_worker_running_time_seconds_total")


def _sum(exporter: exporters.Exporter, name: str) -> float:
    return sum(_values(exporter.scraper.scrape().body.decode(), name))


def _values(text: str, name: str) -> Iterator[float]:
    for line in text.splitlines():
        if line.startswith(f"{name}{{"):
            yield float(line.rpartition("} ")[2].split()[0])


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


if __name__ == "__main__":
    main()
