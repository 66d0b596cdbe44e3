"""Measures what the exporter costs: its own CPU, CPU of uWSGI's master, and the application's requests per second.

`python3 -m tools.bench.cost` (`make bench-cost`) prints three tables. CPU time comes from the processes' CPU clocks, in
nanoseconds. The server is 8x8 and busy (busy threads make the document larger), and /metrics is scraped every 15 s, a
common interval. Runs with and without the exporter alternate, and so does their order, so that a machine that slows
down or speeds up favours neither. The first table is of a sample alone: 8x8 and 64x16, idle and busy.
"""

from __future__ import annotations

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
from tools.bench.accuracy.generator import APP, Load, generator
from tools.bench.accuracy.scrapes import Span, exporting
from tools.bench.exporters import EVERYTHING, OURS, cpu_seconds
from tools.bench.scrape import SIZES
from tools.bench.scrape import measure as read_and_scrape
from tools.bench.table import mark

OPTIONS = ["--processes", "8", "--threads", "8", "--disable-logging", "--http-socket", "web"]
EXPORTER_TARGETS = {5.0: 0.01, 10.0: 0.02}
MASTER_TARGET = 0.005
QUIET = 0.03
"""Noise of the requests per second above which the machine is too busy for a verdict."""

REACHED = 0.9
"""The least part of the requested samples for a verdict: where reads are slow, the exporter's budget takes fewer
samples, and their cost does not apply to the requested rate."""

SCRAPE_EVERY = 15.0

WAITING = Load(clients=38, io_ms=200)
"""For the CPU of exporter and master: threads are busy, and there is CPU left."""

COMPUTING = Load(clients=16, io_ms=0, cpu_ms=2)
"""For requests per second: CPU limits them, so any other use of CPU is visible."""


@dataclass(frozen=True)
class Run:
    """One run. exporter, master: CPU seconds per second; rate: requests per second; samples: samples per second, fewer
    than requested where reading would exceed its share of the time."""

    exporter: float
    master: float
    rate: float
    samples: float


def measure(server: Uwsgi, load: Load, seconds: float, samples: float | None, flags: Sequence[str]) -> Run:
    """Measures one run, with the exporter at `samples` per second and with these flags, or without it for None."""
    with contextlib.ExitStack() as stack:
        pid, scraper = os.getpid(), None
        if samples:
            exporter, scraper = stack.enter_context(
                exporting(server.stats, f"--samples-per-second={samples:g}", *flags)
            )
            pid = exporter.pid
        running = stack.enter_context(generator(load, str(server.directory / "web")))
        running.go()
        time.sleep(2)
        if scraper:
            scraper.scrape()
            before = len(scraper.scrapes)
        start, used, used_by_master = time.monotonic(), cpu_seconds(pid), cpu_seconds(server.pid)
        while (left := start + seconds - time.monotonic()) > 0:
            time.sleep(min(left, SCRAPE_EVERY))
            if scraper:
                scraper.scrape()
        end = time.monotonic()
        used, used_by_master = cpu_seconds(pid) - used, cpu_seconds(server.pid) - used_by_master
        span = Span(scraper.scrapes[before - 1], scraper.scrapes[-1]) if scraper else None
        truth = running.stop()
    ended = sum(start < record.end / 1e9 <= end for record in truth.records)
    taken = span.growth("uwsgi_exporter_samples_total") / span.seconds if span else 0.0
    used = used if samples else 0.0
    return Run(used / (end - start), used_by_master / (end - start), ended / (end - start), taken)


def pairs(
    server: Uwsgi, load: Load, seconds: float, samples: float, count: int, flags: Sequence[str]
) -> Iterator[tuple[Run, Run]]:
    """Yields pairs of runs (without, with) that follow each other."""
    for number in range(count):
        orders = (None, samples) if number % 2 == 0 else (samples, None)
        runs = {order: measure(server, load, seconds, order, flags) for order in orders}
        yield runs[None], runs[samples]


def spread(values: list[float]) -> tuple[float, float]:
    """Returns the mean, and twice its standard error."""
    return fmean(values), 2 * stdev(values) / sqrt(len(values))


def sample_table(flags: Sequence[str]) -> None:
    """CPU of the exporter between scrapes, divided by the samples it takes meanwhile."""
    print("| server | document, kB | CPU of a sample, ms |\n|---|---|---|", flush=True)
    commands = {EVERYTHING: " ".join([OURS[EVERYTHING], *flags])}
    for workers, threads in SIZES:
        for result in read_and_scrape((workers, threads), (0, workers * threads // 4), commands, rounds=9, turns=1):
            sample = table.spread(result.figures[EVERYTHING].sample, 1e3)
            print(f"| {result.scenario} | {result.document / 1e3:.0f} | {sample} |", flush=True)
    print()


def cpu_table(seconds: float, count: int, flags: Sequence[str]) -> None:
    print("| samples a second | taken | exporter's CPU | target |  | master without | with | extra | target |  |")
    print(f"|{'---|' * 10}", flush=True)
    with uwsgi(*OPTIONS, app=APP) as server:
        for samples, target in EXPORTER_TARGETS.items():
            runs = list(pairs(server, WAITING, seconds, samples, count, flags))
            ours, doubt = spread([late.exporter for _, late in runs])
            without, beside = fmean(early.master for early, _ in runs), fmean(late.master for _, late in runs)
            taken = fmean([late.samples for _, late in runs])
            reached = taken >= REACHED * samples
            extra, extra_doubt = spread([late.master - early.master for early, late in runs])
            print(
                f"| {samples:g} | {taken:.1f} "
                f"| {ours:.2%} ± {doubt:.2%} | {target:.0%} | {mark(ours <= target if reached else None)} "
                f"| {without:.3%} | {beside:.3%} | {extra:.3%} ± {extra_doubt:.3%} | {MASTER_TARGET:.1%} | "
                f"{mark(extra <= MASTER_TARGET if reached else None)} |",
                flush=True,
            )


def rate_table(seconds: float, count: int, flags: Sequence[str]) -> None:
    print("\n| pair | requests/s without | with | difference |\n|---|---|---|---|", flush=True)
    differences = []
    with uwsgi(*OPTIONS, app=APP) as server:
        measure(
            server, COMPUTING, seconds, None, flags
        )  # the first run of a server differs from the others: discard it
        for number, (without, beside) in enumerate(pairs(server, COMPUTING, seconds, 5.0, count, flags), 1):
            differences.append(beside.rate / without.rate - 1)
            print(f"| {number} | {without.rate:.1f} | {beside.rate:.1f} | {differences[-1]:+.2%} |", flush=True)
    mean, noise = spread(differences)
    verdict = mark(mean >= -noise) if noise <= QUIET else "unknown, the machine is too busy"
    print(f"\nMean difference {mean:+.2%}, noise ± {noise:.2%} (2 standard errors). Within the noise: {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.cost", description=__doc__)
    parser.add_argument("--seconds", type=float, default=15, help="length of each run (default %(default)g)")
    parser.add_argument("--pairs", type=int, default=6, help="pairs of runs for each table (default %(default)g)")
    parser.add_argument("--option", default="", metavar="FLAGS", help="flags of the exporter, as in --option=--code")
    options = parser.parse_args()
    flags = shlex.split(options.option)
    sample_table(flags)
    cpu_table(options.seconds, options.pairs, flags)
    rate_table(options.seconds, options.pairs, flags)
    print(table.machine())


if __name__ == "__main__":
    main()
