"""Measures exporters side by side against one real uWSGI.

Exporters take turns, in a new random order each round, so that other activity of the machine affects all of them.
CPU time is that of the whole process. Each round begins with a quiet phase that measures what an exporter uses without
scrapes (our sampling); this is subtracted from the cost of scrapes. Our exporter answers a scrape from its last sample,
the others read uWSGI for it: so one read of uWSGI costs ours a sample and a scrape, and the others a scrape.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.support import real_uwsgi
from tools.bench import exporters, load
from tools.bench.exporters import Exporter
from tools.bench.scrape import master

PAUSE_SECONDS = 0.12
"""The least time between two scrapes of one exporter."""

_REST_SECONDS = 2.0

_AFTERWARDS_SECONDS = 0.02
"""Work of an exporter within this time after its response (garbage collection) counts as part of the scrape."""

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
    """Figures of one exporter, in seconds and bytes. One value per round: `cpu` (per scrape), `rest` (per second
    without scrapes) and `sample` (per sample of ours, 0 for others); one value per scrape: `scrape`, `master_cpu`."""

    cpu: list[float] = field(default_factory=list)
    rest: list[float] = field(default_factory=list)
    sample: list[float] = field(default_factory=list)
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
    """Measures every exporter against a uWSGI of this size, once for each number of requests in flight in `busy`."""
    workers, threads = size
    with contextlib.ExitStack() as stack:
        options = ("--processes", str(workers), "--threads", str(threads))
        uwsgi = stack.enter_context(real_uwsgi.uwsgi(*options))
        real_uwsgi.wait_until(lambda: uwsgi.document().count(b'"accepting":1') == workers, what="workers to accept")
        running = [
            stack.enter_context(exporters.running(name, command, uwsgi.stats)) for name, command in commands.items()
        ]
        for requests in busy:
            with load.in_flight(uwsgi, requests):
                figures = _figures(running, uwsgi, rounds, turns)
                yield Result(Scenario(workers, threads, requests), len(uwsgi.document()), figures)


def _figures(running: list[Exporter], uwsgi: real_uwsgi.Uwsgi, rounds: int, turns: int) -> dict[str, Figures]:
    _round(running, uwsgi.pid, {exporter.name: Figures() for exporter in running}, turns)  # to warm up
    figures = {exporter.name: Figures() for exporter in running}
    for _ in range(rounds):
        _round(running, uwsgi.pid, figures, turns)
    for exporter in running:
        mine = figures[exporter.name]
        answer = exporter.scraper.scrape()
        mine.series, mine.sent, mine.resident = answer.series, answer.sent, exporter.resident_bytes()
        mine.occupation = master.occupation(uwsgi.pid, exporter.scraper.scrape, _WATCHED_SCRAPES, PAUSE_SECONDS)
    return figures


def _round(running: list[Exporter], master_pid: int, figures: dict[str, Figures], turns: int) -> None:
    rest = {}
    before = {exporter.name: exporter.samples() for exporter in running}
    time.sleep(_AFTERWARDS_SECONDS)
    cpu = {exporter.name: exporter.cpu_seconds() for exporter in running}
    time.sleep(_REST_SECONDS)
    used = {exporter.name: exporter.cpu_seconds() - cpu[exporter.name] for exporter in running}
    for exporter in running:
        name = exporter.name
        samples = exporter.samples() - before[name]
        rest[name] = used[name] / _REST_SECONDS
        figures[name].rest.append(rest[name])
        figures[name].sample.append(used[name] / samples if samples else 0.0)
    scrapes: dict[str, list[_Scrape]] = {exporter.name: [] for exporter in running}
    order = random.sample(running, len(running))
    for _ in range(turns):
        for exporter in order:
            time.sleep(max(0.0, PAUSE_SECONDS / len(running) - _AFTERWARDS_SECONDS))
            scrapes[exporter.name].append(_scrape(exporter, master_pid))
    for name, taken in scrapes.items():
        figures[name].scrape += [scrape.seconds for scrape in taken]
        figures[name].master_cpu += [scrape.master_cpu for scrape in taken]
        beside = rest[name] * statistics.fmean(scrape.seconds + _AFTERWARDS_SECONDS for scrape in taken)
        figures[name].cpu.append(max(0.0, statistics.fmean(scrape.cpu for scrape in taken) - beside))


@dataclass(frozen=True, slots=True)
class _Scrape:
    """Seconds until the response was complete; CPU seconds of the exporter and of uWSGI's master."""

    seconds: float
    cpu: float
    master_cpu: float


def _scrape(exporter: Exporter, master_pid: int) -> _Scrape:
    cpu, master_cpu = exporter.cpu_seconds(), exporters.cpu_seconds(master_pid)
    seconds = exporter.scraper.scrape().seconds
    time.sleep(_AFTERWARDS_SECONDS)
    return _Scrape(seconds, exporter.cpu_seconds() - cpu, exporters.cpu_seconds(master_pid) - master_cpu)
