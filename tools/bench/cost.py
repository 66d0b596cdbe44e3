"""Measures what the exporter costs: its own CPU, CPU of uWSGI's master, and the application's requests per second.

Prints two tables: of a sample alone, 8x8 and 64x16, idle and busy; and of a busy 8x8 with and without the exporter,
whose /metrics is scraped every 15 s. CPU time comes from the processes' CPU clocks. Runs with and without alternate,
and so does their order: a machine that slows down favours neither. ± is two standard errors of the pairs, the noise.
"""

import argparse
import contextlib
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from tests.support.real_uwsgi import Uwsgi, uwsgi
from tools.bench import table
from tools.bench.accuracy.generator import Load, generator
from tools.bench.accuracy.scrapes import Span, exporting
from tools.bench.exporters import EVERYTHING, OURS, cpu_seconds
from tools.bench.scrape import SIZES
from tools.bench.scrape import measure as read_and_scrape
from tools.scenarios.scenario import APP

OPTIONS = ("--processes", "8", "--threads", "8", "--disable-logging", "--http-socket", "web")
SCRAPE_EVERY = 15.0

LOADS = {
    ("threads wait, and CPU is left", 5.0): Load(clients=38, io_ms=200),
    ("threads wait, and CPU is left", 10.0): Load(clients=38, io_ms=200),
    ("CPU limits the requests", 5.0): Load(clients=16, io_ms=0, cpu_ms=2),
}
"""By what the load does, and the samples a second that are asked for; where reads are slow, fewer are taken."""


@dataclass(frozen=True)
class Run:
    """One run. exporter, master: CPU seconds per second; rate: requests per second; samples: samples per second."""

    exporter: float
    master: float
    rate: float
    samples: float


def measure(server: Uwsgi, load: Load, seconds: float, samples: float | None, flags: Sequence[str]) -> Run:
    """Measures one run, with the exporter at `samples` per second and with these flags, or without it for None."""
    with contextlib.ExitStack() as stack:
        pid, scraper = os.getpid(), None
        if samples:
            more = f"--samples-per-second={samples:g}"
            exporter, scraper = stack.enter_context(exporting(server.stats, more, *flags))
            pid = exporter.pid
        running = stack.enter_context(generator(load, str(server.directory / "web")))
        running.go()
        time.sleep(2)
        first = scraper.scrape() if scraper else None
        start, used, used_by_master = time.monotonic(), cpu_seconds(pid), cpu_seconds(server.pid)
        while (left := start + seconds - time.monotonic()) > 0:
            time.sleep(min(left, SCRAPE_EVERY))
            last = scraper.scrape() if scraper else None
        length = time.monotonic() - start
        used, used_by_master = cpu_seconds(pid) - used, cpu_seconds(server.pid) - used_by_master
        truth = running.stop()
    ended = sum(start < record.end / 1e9 <= start + length for record in truth.records) / length
    if not (first and last):
        return Run(0.0, used_by_master / length, ended, 0.0)
    span = Span(first, last)
    taken = span.growth("uwsgi_exporter_samples_total") / span.seconds
    return Run(used / length, used_by_master / length, ended, taken)


def pairs(load: Load, seconds: float, samples: float, count: int, flags: Sequence[str]) -> Iterator[tuple[Run, Run]]:
    with uwsgi(*OPTIONS, app=APP) as server:
        measure(server, load, min(seconds, 5.0), None, flags)  # the first run of a server differs from the others
        for number in range(count):
            orders = (None, samples) if number % 2 == 0 else (samples, None)
            runs = {order: measure(server, load, seconds, order, flags) for order in orders}
            yield runs[None], runs[samples]


def _spread(values: Sequence[float]) -> str:
    return f"{fmean(values):.2%} ± {2 * stdev(values) / sqrt(len(values)):.2%}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.cost", description=__doc__)
    parser.add_argument("--seconds", type=float, default=15, help="length of each run (default %(default)g)")
    parser.add_argument("--pairs", type=int, default=6, help="pairs of runs for each load (default %(default)g)")
    parser.add_argument("--option", default="", metavar="FLAGS", help="flags of the exporter, as in --option=--code")
    options = parser.parse_args()
    flags = shlex.split(options.option)
    print(table.render_table("server | document, kB | CPU of a sample, ms", []), flush=True)
    commands = {EVERYTHING: " ".join([OURS[EVERYTHING], *flags])}
    for workers, threads in SIZES:
        for result in read_and_scrape((workers, threads), (0, workers * threads // 4), commands, rounds=9, turns=1):
            sample = table.spread(result.figures[EVERYTHING].sample, 1e3)
            print(f"| {result.scenario} | {result.document / 1e3:.0f} | {sample} |", flush=True)
    head = "load | samples a second | taken | exporter's CPU | master's CPU without | more | requests/s without | more"
    print(f"\n{table.render_table(head, [])}", flush=True)
    for (name, samples), load in LOADS.items():
        runs = list(pairs(load, options.seconds, samples, options.pairs, flags))
        without, beside = zip(*runs, strict=True)
        cells = [name, f"{samples:g}", f"{fmean(run.samples for run in beside):.1f}"]
        cells += [_spread([run.exporter for run in beside]), f"{fmean(run.master for run in without):.2%}"]
        cells += [_spread([late.master - early.master for early, late in runs])]
        cells += [f"{fmean(run.rate for run in without):.1f}", _spread([b.rate / a.rate - 1 for a, b in runs])]
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\n{table.machine()}")


if __name__ == "__main__":
    main()
