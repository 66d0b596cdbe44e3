"""Measures what a sample costs the exporter, against another version of it or against one without waits.

`python3 -m tools.bench.sample_cost --before DIRECTORY` prints a table. DIRECTORY has the package of the earlier
version: /tmp/before/exporter after `git archive COMMIT exporter | tar -x -C /tmp/before`. Both exporters sample one
uWSGI at the same time, so that whatever else the machine does affects both alike; each slice of the time is a pair.
Nobody scrapes meanwhile. CPU time is that of the whole process.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.bench import load, table
from tools.bench.cost import cpu_seconds
from tools.environments import ROOT
from tools.support.exporter import Exporter, exporter
from tools.support.real_uwsgi import uwsgi

BEGIN, END = "<!-- bench:sample -->", "<!-- /bench:sample -->"
SLICES, SECONDS, SETTLE = 12, 5.0, 10.0
THREADS = ("--processes", "8", "--threads", "8")
LOOPS = ("--processes", "8", "--gevent", "8")
NOW = str(ROOT / "exporter")


@dataclass(frozen=True)
class Case:
    """A server with requests in flight, and what this version is compared with. before: the other one is the earlier
    version; else it is this one without waits."""

    name: str
    options: tuple[str, ...]
    in_flight: int
    before: bool


CASES = (
    Case("8x8 threads, idle", THREADS, 0, before=True),
    Case("8x8 threads, 16 in flight", THREADS, 16, before=True),
    Case("8x8 coroutines, 16 in flight", (*LOOPS, "--gevent-monkey-patch"), 16, before=True),
    Case("8x8 coroutines, 16 in flight", (*LOOPS, "--gevent-monkey-patch"), 16, before=False),
    Case("8x8 coroutines, a call holds each loop", LOOPS, 8, before=False),
)


def measure(case: Case, earlier: str) -> list[tuple[float, float]]:
    """The CPU seconds of a sample of the other exporter and of this one, slice by slice."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(uwsgi(*case.options, "--disable-logging"))
        stack.enter_context(load.in_flight(server, case.in_flight))
        other = _run(earlier, server.stats) if case.before else _run(NOW, server.stats, "--waits", "false")
        both = [stack.enter_context(each) for each in (other, _run(NOW, server.stats))]
        time.sleep(SETTLE)
        pairs = []
        for _ in range(SLICES):
            taken, used = [_count_samples(each) for each in both], [cpu_seconds(each.pid) for each in both]
            time.sleep(SECONDS)
            spent = [cpu_seconds(each.pid) - start for each, start in zip(both, used, strict=True)]
            samples = [_count_samples(each) - start for each, start in zip(both, taken, strict=True)]
            first, second = (seconds / number for seconds, number in zip(spent, samples, strict=True))
            pairs.append((first, second))
        return pairs


@contextlib.contextmanager
def _run(package: str, stats: str, *options: str) -> Iterator[Exporter]:
    """An exporter whose package is in this directory."""
    start = f"import sys; sys.path.insert(0, {package!r}); from uwsgi_headroom.cli import main; sys.exit(main())"
    with exporter("--stats", stats, *options, command=(sys.executable, "-c", start)) as running:
        yield running


def _count_samples(running: Exporter) -> float:
    return sum(value for name, value in running.scrape().items() if name.startswith("uwsgi_exporter_samples_total"))


def _row(case: Case, pairs: Sequence[tuple[float, float]]) -> str:
    others, ours = ([1e3 * pair[place] for pair in pairs] for place in (0, 1))
    more = [100 * (ours / other - 1) for other, ours in pairs]
    against = "before" if case.before else "without waits"
    return " | ".join(
        [
            case.name,
            against,
            *(f"{statistics.median(each):.2f} ({min(each):.2f}-{max(each):.2f})" for each in (others, ours)),
            f"{statistics.median(more):+.0f} % ({min(more):+.0f} to {max(more):+.0f})",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.sample_cost", description=__doc__)
    parser.add_argument("--before", type=Path, metavar="DIRECTORY", help="the folder of the earlier version's package")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the table into a file")
    options = parser.parse_args()
    cases = [case for case in CASES if options.before or not case.before]
    rows = [_row(case, measure(case, str(options.before))) for case in cases]
    head = "server | compared with | it: ms of CPU a sample | now: ms of CPU a sample | more"
    notes = f"Median and range of {SLICES} pairs of {SECONDS:g} s each, of which both have the same time."
    text = f"{table.render_table(head, rows)}\n\n{notes} {table.machine()}"
    print(text)
    if options.write:
        table.write(options.write, text, BEGIN, END)


if __name__ == "__main__":
    main()
