"""Measures how the exporter's cost grows with workers, threads, servers, samples and scrapers, and fits exponents.

What is worse than linear is a defect. Servers are stand-ins that answer captured documents, so that runs repeat; those
with `kernel` in their name are real uWSGIs, whose processes and threads the exporter reads from the kernel too. Sizes
of an axis take turns, in a new random order each round. `--only TEXT` measures axes whose name contains the text.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from tools.bench import load, table
from tools.bench.scale.fit import MOST_EXPONENT, find_upper_half, fit_exponent
from tools.bench.scale.point import PERIOD, Cost, Specification
from tools.environments import ROOT
from tools.support import real_uwsgi
from tools.support.stand_in_servers import short_folder, stand_ins

_TRAFFIC = 0.05
"""The part of many servers that has traffic."""

Make = Callable[[contextlib.ExitStack, int], Specification]
"""Starts the servers of one size, and returns what is measured with them."""

Quantity = tuple[str, Callable[[Cost], float]]

_SAMPLE: Quantity = ("CPU of a sample, ms", lambda cost: 1e3 * cost.each)
_SCRAPE: Quantity = ("CPU of a scrape, ms", lambda cost: 1e3 * cost.scrape)
_SAMPLES: Quantity = ("CPU of all samples, ms", lambda cost: 1e3 * cost.samples)
_RESIDENT: Quantity = ("resident, MB", lambda cost: cost.resident / 1e6)


@dataclass(frozen=True)
class Axis:
    """What grows, how it is made, and which costs count."""

    name: str
    sizes: Sequence[int]
    make: Make
    quantities: Sequence[Quantity] = (_SAMPLE, _SCRAPE)


@dataclass(frozen=True)
class Result:
    """The costs of an axis: by size, one for each round."""

    axis: Axis
    costs: Sequence[Sequence[Cost]]


def _stand_ins(stack: contextlib.ExitStack, servers: int, workers: int, threads: int, traffic: float) -> list[str]:
    folder = stack.enter_context(short_folder())
    return stack.enter_context(stand_ins(folder, servers, workers, threads, traffic))


def _real(stack: contextlib.ExitStack, workers: int, threads: int) -> list[str]:
    """A real uWSGI, a quarter of whose threads serve a request."""
    options = ("--processes", str(workers), "--threads", str(threads), "--thread-stacksize", "256", "--listen", "128")
    server = stack.enter_context(real_uwsgi.uwsgi(*options))
    real_uwsgi.wait_until(lambda: server.document().count(b'"accepting":1') == workers, 60, what="workers")
    stack.enter_context(load.in_flight(server, max(1, workers * threads // 4)))
    return [server.stats]


AXES = (
    Axis(
        "workers, of 1 thread",
        (1, 2, 4, 8, 16, 32, 64, 128, 256),
        lambda stack, size: Specification(_stand_ins(stack, 1, size, 1, 1.0), periods=4),
    ),
    Axis(
        "threads, of 8 workers",
        (1, 2, 4, 8, 16, 32, 64),
        lambda stack, size: Specification(_stand_ins(stack, 1, 8, size, 1.0), periods=4),
    ),
    Axis(
        "workers, of 1 thread, with kernel",
        (1, 2, 4, 8, 16, 32, 64, 128, 256),
        lambda stack, size: Specification(_real(stack, size, 1), periods=2),
    ),
    Axis(
        "threads, of 8 workers, with kernel",
        (1, 2, 4, 8, 16, 32, 64),
        lambda stack, size: Specification(_real(stack, 8, size), periods=2),
    ),
    Axis(
        "servers, of 2x1",
        (1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000),
        lambda stack, size: Specification(_stand_ins(stack, size, 2, 1, _TRAFFIC), warm_up=PERIOD),
        (_SAMPLE, _SCRAPE, _RESIDENT),
    ),
    Axis(
        "samples, of one 8x8",
        tuple(PERIOD * number for number in (1, 2, 4, 8, 16, 32, 64, 128, 256)),
        lambda stack, size: Specification(
            _stand_ins(stack, 1, 8, 8, 1.0), warm_up=PERIOD, periods=size // PERIOD, is_fresh=True
        ),
        (_SAMPLES, _SCRAPE, _RESIDENT),
    ),
    Axis(
        "scrapers at once, of 100 servers of 2x1",
        (1, 2, 4, 8, 16, 32, 64),
        lambda stack, size: Specification(_stand_ins(stack, 100, 2, 1, _TRAFFIC), scrapers=size, warm_up=PERIOD),
        (_SCRAPE,),
    ),
)


def main() -> None:
    options = _options()
    began, load_before = time.monotonic(), os.getloadavg()[0]
    results = []
    for axis in AXES:
        if options.only in axis.name:
            sizes = [size for size in axis.sizes if size <= options.largest]
            results.append(_measure(replace(axis, sizes=sizes), options.rounds))
            print(_report_axis(results[-1]), end="\n\n", flush=True)
    text = "\n\n".join(
        [
            _report(results),
            *(_report_axis(result) for result in results),
            _notes(options.rounds, time.monotonic() - began, load_before),
            table.machine(),
        ]
    )
    table.publish(text, "bench:scale", options.write)


def _options() -> argparse.Namespace:
    parser = table.make_parser("tools.bench.scale", __doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only axes whose name contains this text")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each size (default %(default)s)")
    parser.add_argument("--largest", type=int, default=10**6, metavar="SIZE", help="no size above this one")
    return parser.parse_args()


def _measure(axis: Axis, rounds: int) -> Result:
    with contextlib.ExitStack() as stack:
        points = [stack.enter_context(_running(axis.make(stack, size))) for size in axis.sizes]
        costs: list[list[Cost]] = [[] for _ in points]
        for number in range(rounds):
            for place in random.sample(range(len(points)), len(points)):
                costs[place].append(_ask(points[place]))
            print(f"{axis.name}: round {number + 1} of {rounds}", file=sys.stderr)
        return Result(axis, costs)


@contextlib.contextmanager
def _running(specification: Specification) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tools.bench.scale.point", json.dumps(asdict(specification))]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def _ask(process: subprocess.Popen[str]) -> Cost:
    assert process.stdin
    assert process.stdout
    process.stdin.write("measure\n")
    process.stdin.flush()
    return Cost(**json.loads(process.stdout.readline() or "null"))


def _exponents(result: Result, value: Callable[[Cost], float]) -> tuple[float, float, float]:
    """The exponent of the medians; the least and the greatest of a round alone."""
    sizes = result.axis.sizes
    rounds = [fit_exponent(sizes, [value(cost) for cost in costs]) for costs in zip(*result.costs, strict=True)]
    medians = [statistics.median(map(value, costs)) for costs in result.costs]
    return fit_exponent(sizes, medians), min(rounds), max(rounds)


def _report(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        sizes = result.axis.sizes
        for name, value in result.axis.quantities:
            exponent, least, most = _exponents(result, value)
            mark = "✓" if exponent <= MOST_EXPONENT else "✗"
            rows.append(
                f"{result.axis.name} | {sizes[find_upper_half(sizes)]:,} to {sizes[-1]:,} | {name.partition(',')[0]} | "
                f"{exponent:.2f} ({least:.2f} to {most:.2f}) | {mark}"
            )
    return table.render_table("what grows | fitted from | cost | exponent | not worse than linear", rows)


def _report_axis(result: Result) -> str:
    names = [name for name, _ in result.axis.quantities]
    rows = []
    for size, costs in zip(result.axis.sizes, result.costs, strict=True):
        values = [list(map(value, costs)) for _, value in result.axis.quantities]
        cells = [table.spread(each, digits=2 if statistics.median(each) < 100 else 0) for each in values]
        rows.append(" | ".join([f"{size:,}", *cells, f"{costs[0].series:,}"]))
    return table.render_table(" | ".join([result.axis.name, *names, "series"]), rows)


def _notes(rounds: int, seconds: float, load_before: float) -> str:
    return (
        f"Median and range of {rounds} rounds, {seconds / 60:.0f} minutes in all; sizes of an axis take turns. CPU is "
        "user and system time of a process for each size. *A sample* is of all servers of that size; *a scrape* is by "
        "all scrapers, without sockets. The exponent is that of the power law through the upper half of the sizes "
        f"(least squares of logarithms; in brackets, of each round alone); at most {MOST_EXPONENT:g} counts as linear. "
        f"Load average {load_before:.1f} when it began, {os.getloadavg()[0]:.1f} when it ended."
    )


if __name__ == "__main__":
    main()
