"""Measures one exporter that watches many servers: its CPU, its memory, its scrapes and the rate of its samples.

Three situations, each without waits and routes, at one sample a second, with scrapes as Prometheus makes them:

* 200 real uWSGIs of 8x8, with two requests a second each at random, one of them in service on average.
* 1,000 vassals of 2x1, of which one in twenty has such traffic. As many as fit into memory are real, under one Emperor.
* 5,000 sockets, of which 1,000 are stand-ins and nobody listens on the others: with the default of `max_servers`, and
  with all of them watched.

CPU of a sample is what the exporter uses without scrapes, all its work, divided by the samples of servers that are up.
"""

import argparse
import contextlib
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.support import exporter
from tests.support.real_uwsgi import APP, Uwsgi, bare, uwsgi, wait_for_workers, wait_until
from tests.support.stand_in_servers import short_folder, stale_sockets, stand_ins
from tools.bench import table
from tools.bench.exporters import Scraper, cpu_seconds
from tools.scenarios.scenario import Load
from tools.scenarios.servers import Running, loaded
from uwsgi_headroom.tune.load import Address

SCRAPE_SECONDS = 15
"""The usual interval of Prometheus."""

_TRAFFIC = 0.05


class Target(NamedTuple):
    """cpu: of one CPU, sampling and scrapes together; scrape: seconds; resident: bytes."""

    cpu: float
    scrape: float
    resident: float


class Result(NamedTuple):
    """servers: that are watched; up: of those, readable; left_out: sockets that are not watched; cpu: seconds of CPU
    per second, without scrapes; scrape_cpu: seconds of each scrape; scrapes: seconds until the last byte; interval:
    mean seconds between two samples of a server that is up; said: warnings and errors of the log, and how many
    lines."""

    servers: int
    up: int
    left_out: int
    cpu: float
    scrape_cpu: Sequence[float]
    scrapes: Sequence[float]
    interval: float
    resident: int
    series: int
    sent: int
    said: Mapping[str, int]


class Row(NamedTuple):
    """One measurement. target: None if there is none."""

    name: str
    result: Result
    target: Target | None = None


def main() -> None:
    options = _options()
    rows: list[Row] = []
    for name, run in SITUATIONS.items():
        if options.only in name:
            rows += run(options)
            print(f"{_report(rows)}\n", file=sys.stderr)  # the next one may fail
    print(_report(rows), *_targets(rows), _said(rows), table.machine(), sep="\n\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.many_servers", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only situations whose name contains this text")
    parser.add_argument("--servers", type=int, default=200, help="of 8x8 (default %(default)s)")
    parser.add_argument("--vassals", type=int, default=1000, help="of 2x1 (default %(default)s)")
    parser.add_argument("--sockets", type=int, default=5000, help="stale or stand-in (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=60, help="of each measurement (default %(default)s)")
    return parser.parse_args()


def _servers(options: argparse.Namespace) -> list[Row]:
    threads = ("--processes", "8", "--threads", "8", "--thread-stacksize", "256")
    with (
        many_uwsgis(options.servers, *threads) as servers,
        some_traffic([("127.0.0.1", server.http) for server in servers]),
    ):
        result = measure([server.stats for server in servers], options.seconds)
    return [Row(f"{len(servers):,} of 8x8", result, Target(0.15, 0.2, 110e6))]


def _vassals(options: argparse.Namespace) -> list[Row]:
    real = count_vassals(options.vassals)
    others = options.vassals - real
    patterns: list[str] = []
    with contextlib.ExitStack() as stack:
        if real:
            folder, http = stack.enter_context(vassals(real))
            patterns.append(f"{folder}/*.stats")
            stack.enter_context(some_traffic(http[:: round(1 / _TRAFFIC)]))
        if others:
            folder = stack.enter_context(short_folder())
            stack.enter_context(stand_ins(folder, others, 2, 1, _TRAFFIC))
            patterns.append(f"{folder}/*.stats")
        result = measure(patterns, options.seconds, max_servers=options.vassals)
    return [Row(f"{options.vassals:,} of 2x1, {real:,} of them real", result, Target(0.25, 1.0, 250e6))]


def _sockets(options: argparse.Namespace) -> list[Row]:
    answering = options.sockets // 5
    name = f"{options.sockets:,} sockets, {answering:,} of which answer; max_servers"
    with (
        short_folder() as folder,
        stand_ins(folder, answering, 2, 1, _TRAFFIC),
        stale_sockets(folder, options.sockets - answering),
    ):
        results = {most: measure([f"{folder}/*.stats"], options.seconds, most) for most in (None, options.sockets)}
    return [Row(f"{name} {most or 'as shipped'}", result) for most, result in results.items()]


SITUATIONS: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    "servers": _servers,
    "vassals": _vassals,
    "sockets": _sockets,
}


def _whole(result: Result) -> float:
    return result.cpu + statistics.median(result.scrape_cpu) / SCRAPE_SECONDS


def _report(rows: Sequence[Row]) -> str:
    return table.render_table(
        "servers | watched | up | left out | seconds between samples | CPU without scrapes | CPU of a sample, ms | CPU "
        f"of a scrape, ms | of one CPU, with a scrape each {SCRAPE_SECONDS} s | scrape, ms | resident, MB | series | "
        "answer, kB",
        [
            f"{row.name} | {result.servers:,} | {result.up:,} | {result.left_out:,} | {result.interval:.2f} | "
            f"{result.cpu:.1%} | {result.cpu * result.interval / max(1, result.up) * 1e3:.2f} | "
            f"{table.spread(result.scrape_cpu, 1e3, 0)} | {_whole(result):.1%} | "
            f"{table.spread(result.scrapes, 1e3, 0)} | {result.resident / 1e6:.0f} | {result.series:,} | "
            f"{result.sent / 1e3:,.0f}"
            for row in rows
            for result in (row.result,)
        ],
    )


def _targets(rows: Sequence[Row]) -> list[str]:
    lines = []
    for row in rows:
        if row.target:
            cpu, scrape = _whole(row.result), statistics.median(row.result.scrapes)
            for name, value, most, form in (
                ("of one CPU", cpu, row.target.cpu, "{:.1%}"),
                ("seconds between samples", row.result.interval, 1.05, "{:.2f}"),
                ("scrape, s", scrape, row.target.scrape, "{:.2f}"),
                ("resident, MB", row.result.resident / 1e6, row.target.resident / 1e6, "{:.0f}"),
            ):
                figures = f"{form.format(value)} | {form.format(most)}"
                lines.append(f"{row.name} | {name} | {figures} | {table.mark(value <= most)}")
    return [table.render_table("servers | target | measured | at most | ", lines)] if lines else []


def _said(rows: Sequence[Row]) -> str:
    lines = [
        f"{row.name} | {message} | {number:,}" for row in rows for message, number in sorted(row.result.said.items())
    ]
    return table.render_table("servers | warning or error in the exporter's log | lines", lines or ["any | none | 0"])


WARM_UP_SECONDS = 75
"""Until the window of a minute is full."""

_SCRAPES = 9
_SAMPLES = re.compile(r"^uwsgi_exporter_samples_total\{[^}]*\} (\S+)$", re.MULTILINE)
_UP = re.compile(r"^uwsgi_up\{[^}]*\} (\S+)$", re.MULTILINE)
_LEFT_OUT = re.compile(r"^uwsgi_exporter_pattern_servers\{.*state=\"left_out\"\} (\S+)$", re.MULTILINE)
_MESSAGE = re.compile(r'msg=("[^"]*"|\S+)')


def measure(stats: Sequence[str], seconds: float, max_servers: int | None = None) -> Result:
    """stats: paths of sockets, or patterns of them."""
    sampling = {"samples_per_second": 1, "waits": False} | ({"max_servers": max_servers} if max_servers else {})
    named = [{"stats": f"unix://{path}", "name": f"app{place}"} for place, path in enumerate(stats)]
    servers = [{"stats": path} for path in stats] if any("*" in path for path in stats) else named
    with exporter.configured_exporter(servers, sampling=sampling) as running:
        return _measure(running, seconds)


def _measure(running: exporter.Exporter, seconds: float) -> Result:
    scraper = Scraper(running.port)
    time.sleep(WARM_UP_SECONDS)
    before = _count_samples(scraper)
    time.sleep(1)
    cpu, began = cpu_seconds(running.pid), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - began
    rest = (cpu_seconds(running.pid) - cpu) / elapsed
    after = _count_samples(scraper)
    scrapes, scrape_cpu = [], []
    for _ in range(_SCRAPES):
        cpu, began = cpu_seconds(running.pid), time.monotonic()
        answer = scraper.scrape()
        scrapes.append(answer.seconds)
        time.sleep(0.3)
        scrape_cpu.append(cpu_seconds(running.pid) - cpu - rest * (time.monotonic() - began))
        time.sleep(1)
    resident = psutil.Process(running.pid).memory_info().rss
    scraper.close()
    text = answer.body.decode()
    up = [float(value) for value in _UP.findall(text)]
    return Result(
        servers=len(up),
        up=int(sum(up)),
        left_out=int(sum(map(float, _LEFT_OUT.findall(text)))),
        cpu=rest,
        scrape_cpu=scrape_cpu,
        scrapes=scrapes,
        interval=(elapsed + 1) * sum(up) / max(1.0, after - before),
        resident=resident,
        series=answer.series,
        sent=answer.sent,
        said=_read_log(running.log),
    )


def _count_samples(scraper: Scraper) -> float:
    return sum(map(float, _SAMPLES.findall(scraper.scrape().body.decode())))


def _read_log(log: Path) -> Mapping[str, int]:
    lines = [line for line in log.read_text().splitlines() if "level=warning" in line or "level=error" in line]
    return Counter(found[1].strip('"') if (found := _MESSAGE.search(line)) else line for line in lines)


VASSAL_BYTES = 14e6
"""A vassal of 2x1 takes some 11 MB of memory that it shares with no other; what is left is for the rest."""

SPARE_BYTES = 3e9
"""Of memory, for everything else on the machine."""

_VASSAL = """[uwsgi]
master = true
need-app = true
processes = 2
threads = 1
listen = 16
buffer-size = 4096
wsgi-file = {app}
stats = %d../%n.stats
http-socket = %d../%n.http
disable-logging = true
"""


@contextlib.contextmanager
def many_uwsgis(number: int, *options: str) -> Iterator[list[Uwsgi]]:
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(lambda: stack.enter_context(uwsgi(*options))) for _ in range(number)]
        servers = []
        for started in waiting:
            servers.append(started.result())
            print(f"\r{len(servers)} servers", end="", file=sys.stderr)
        print(file=sys.stderr)
        for server in servers:
            wait_for_workers(server)
        try:
            yield servers
        finally:
            for server in servers:  # together: each takes half a second to end
                server.process.terminate()


def count_vassals(wanted: int) -> int:
    return max(0, min(wanted, int((psutil.virtual_memory().available - SPARE_BYTES) / VASSAL_BYTES)))


@contextlib.contextmanager
def vassals(number: int) -> Iterator[tuple[Path, list[str]]]:
    """Run an Emperor with so many vassals of 2 workers and 1 thread until the block ends. Returns the folder with their
    sockets `*.stats`, and the sockets on which they take requests."""
    files = {f"vassals/v{place:04d}.ini": _VASSAL.format(app=APP) for place in range(number)}
    options = ("--emperor", "{directory}/vassals", "--emperor-stats", "{directory}/stats", "--emperor-throttle", "0")
    with bare(*options, files=files) as emperor:
        try:

            def count() -> int:
                started = len(list(emperor.directory.glob("*.stats")))
                print(f"\r{started} vassals", end="", file=sys.stderr)
                return started

            wait_until(lambda: count() >= number, 900.0, f"{number} vassals", pause=1.0)
            print(file=sys.stderr)
            yield emperor.directory, sorted(map(str, emperor.directory.glob("*.http")))
        finally:
            _end(emperor.process)


def _end(emperor: subprocess.Popen[bytes]) -> None:
    running = psutil.Process(emperor.pid).children(recursive=True)
    emperor.send_signal(signal.SIGINT)
    _, left = psutil.wait_procs(running, 120.0)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def some_traffic(addresses: Sequence[Address]) -> AbstractContextManager[Running]:
    return loaded([(Load(rate=2.0, io_ms=500, seed=place), address) for place, address in enumerate(addresses)])


if __name__ == "__main__":
    main()
