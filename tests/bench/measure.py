"""Measuring exporters side by side against one real uWSGI.

Exporters take turns, in an order shuffled anew each round, so that whatever else the machine does falls on all of them.
CPU time is the whole process's. A round begins with a stretch in which nobody asks, and what an exporter uses there (our
sampling) is taken off what it uses in the stretch of scrapes.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests import real
from tests.bench import exporters, load, master
from tests.bench.exporters import Exporter

FRESH_SECONDS = 0.12
"""Between two scrapes of one exporter, at least: ours answers from its last reading for 0.1 s."""

_REST_SECONDS = 2.0
_WATCHED_SCRAPES = 40


@dataclass(frozen=True, slots=True)
class Scenario:
    """A uWSGI to measure against: its workers, threads in each, and requests in flight."""

    workers: int
    threads: int
    in_flight: int

    def __str__(self) -> str:
        busy = f"{self.in_flight} in flight" if self.in_flight else "idle"
        return f"{self.workers}x{self.threads}, {busy}"


@dataclass
class Figures:
    """What was measured of one exporter. Seconds and bytes; one value a round of `cpu` (a scrape) and `rest` (a second
    in which nobody asks), one a scrape of `scrape` and `master_cpu`."""

    cpu: list[float] = field(default_factory=list)
    rest: list[float] = field(default_factory=list)
    scrape: list[float] = field(default_factory=list)
    master_cpu: list[float] = field(default_factory=list)
    occupation: master.Occupation = field(default_factory=lambda: master.Occupation(0, 0))
    resident: int = 0
    series: int = 0
    sent: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """One scenario: the size of its stats document, and each exporter's figures by name."""

    scenario: Scenario
    document: int
    figures: Mapping[str, Figures]


def measure(
    size: tuple[int, int], busy: Sequence[int], commands: Mapping[str, str], *, rounds: int, turns: int
) -> Iterator[Result]:
    """Measure every exporter against a uWSGI of that size: once for each number of requests in flight in `busy`."""
    workers, threads = size
    with contextlib.ExitStack() as stack:
        options = ("--processes", str(workers), "--threads", str(threads))
        uwsgi = stack.enter_context(real.uwsgi(*options))
        real.wait_until(lambda: uwsgi.document().count(b'"accepting":1') == workers, what="workers to accept")
        running = [
            stack.enter_context(exporters.running(name, command, uwsgi.stats)) for name, command in commands.items()
        ]
        for requests in busy:
            with load.in_flight(uwsgi, requests):
                figures = _figures(running, uwsgi, rounds, turns)
                yield Result(Scenario(workers, threads, requests), len(uwsgi.document()), figures)


def _figures(running: list[Exporter], uwsgi: real.Uwsgi, rounds: int, turns: int) -> dict[str, Figures]:
    _round(running, uwsgi.pid, {exporter.name: Figures() for exporter in running}, turns)  # to warm up
    figures = {exporter.name: Figures() for exporter in running}
    for _ in range(rounds):
        _round(running, uwsgi.pid, figures, turns)
    for exporter in running:
        mine = figures[exporter.name]
        answer = exporter.scraper.scrape()
        mine.series, mine.sent, mine.resident = answer.series, answer.sent, exporter.resident_bytes()
        mine.occupation = master.occupation(uwsgi.pid, exporter.scraper.scrape, _WATCHED_SCRAPES, FRESH_SECONDS)
    return figures


def _round(running: list[Exporter], master_pid: int, figures: dict[str, Figures], turns: int) -> None:
    quiet = _used(running, lambda: time.sleep(_REST_SECONDS))
    start = time.perf_counter()
    busy = _used(running, lambda: _scrapes(running, master_pid, figures, turns))
    seconds = time.perf_counter() - start
    for exporter in running:
        mine = figures[exporter.name]
        mine.rest.append(quiet[exporter.name] / _REST_SECONDS)
        mine.cpu.append((busy[exporter.name] - mine.rest[-1] * seconds) / turns)


def _used(running: list[Exporter], stretch: Callable[[], None]) -> dict[str, float]:
    """CPU seconds each exporter uses meanwhile."""
    before = [exporter.cpu_seconds() for exporter in running]
    stretch()
    return {exporter.name: exporter.cpu_seconds() - cpu for exporter, cpu in zip(running, before, strict=True)}


def _scrapes(running: list[Exporter], master_pid: int, figures: dict[str, Figures], turns: int) -> None:
    order = random.sample(running, len(running))
    for _ in range(turns):
        for exporter in order:
            time.sleep(FRESH_SECONDS / len(running))
            mine = figures[exporter.name]
            before = exporters.cpu_seconds(master_pid)
            mine.scrape.append(exporter.scraper.scrape().seconds)
            mine.master_cpu.append(exporters.cpu_seconds(master_pid) - before)
    time.sleep(FRESH_SECONDS)  # what an exporter does after its answer (collecting garbage) is its own as well
