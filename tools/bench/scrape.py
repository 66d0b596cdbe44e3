"""Measures what a scrape and a sample cost: our exporter, with other options, and other exporters, side by side.

Each exporter takes its turn against a real uWSGI of two sizes, idle and with requests in flight; the order of a round
is random, so that other activity of the machine affects all. CPU is that of the whole process: the median of the rounds
and their range. Each round begins without scrapes: what an exporter uses then (our sampling) is subtracted from the
cost of its scrapes. Ours answers a scrape from its last sample, the others read uWSGI for it: so one read of uWSGI
costs ours a sample and a scrape. *Same content* is ours without sampling, and without queries to the kernel
(`document_only`).
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.support import real_uwsgi
from tools.bench import exporters
from tools.bench.exporters import EVERYTHING, OURS, SAME_CONTENT, Exporter, cpu_seconds
from tools.bench.table import machine, render_table, spread

SIZES = ((8, 8), (64, 16))


PAUSE_SECONDS = 0.12
"""The least time between two scrapes of one exporter."""

_REST_SECONDS = 2.0

_AFTERWARDS_SECONDS = 0.02
"""Work of an exporter within this time after its response (garbage collection) counts as part of the scrape."""


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
        uwsgi = stack.enter_context(real_uwsgi.uwsgi(*real_uwsgi.sized(workers, threads)))
        real_uwsgi.wait_until(lambda: uwsgi.document().count(b'"accepting":1') == workers, what="workers to accept")
        running = [
            stack.enter_context(exporters.running(name, command, uwsgi.stats)) for name, command in commands.items()
        ]
        for requests in busy:
            with in_flight(uwsgi, requests):
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
    cpu, master_cpu = exporter.cpu_seconds(), cpu_seconds(master_pid)
    seconds = exporter.scraper.scrape().seconds
    time.sleep(_AFTERWARDS_SECONDS)
    return _Scrape(seconds, exporter.cpu_seconds() - cpu, cpu_seconds(master_pid) - master_cpu)


RESIDENT_TARGET_BYTES = 45e6
CPU_TARGETS = {SAME_CONTENT: 0.5, EVERYTHING: 1.0}

SCRAPE_INTERVAL_SECONDS = 15


def report(results: Sequence[Result]) -> str:
    return "\n\n".join([_measured(results), _targets(results), machine()])


def _measured(results: Sequence[Result]) -> str:
    head = (
        "server | exporter | CPU a scrape, ms | CPU a sample, ms | CPU at rest, ms/s | of one CPU | scrape, ms | "
        "resident, MB | series | answer, kB | master's CPU, ms"
    )
    return render_table(
        head, [_row(result, name, figures) for result in results for name, figures in result.figures.items()]
    )


def _row(result: Result, name: str, figures: Figures) -> str:
    rest = statistics.median(figures.rest)
    return " | ".join(
        [
            f"{result.scenario}, {result.document / 1e3:.0f} kB",
            name,
            spread(figures.cpu, 1e3),
            spread(figures.sample, 1e3) if any(figures.sample) else "-",
            f"{rest * 1e3:.1f}",
            f"{rest + statistics.median(figures.cpu) / SCRAPE_INTERVAL_SECONDS:.2%}",
            spread(figures.scrape, 1e3),
            f"{figures.resident / 1e6:.1f}",
            str(figures.series),
            f"{figures.sent / 1e3:.1f}",
            f"{statistics.median(figures.master_cpu) * 1e3:.2f}",
        ]
    )


def _targets(results: Sequence[Result]) -> str:
    peers = [name for name in results[0].figures if not name.startswith("ours")]
    rows = [
        f"{name}: CPU of a scrape{' and a sample' * (name == EVERYTHING)} at most {limit:g} x that of {peer} | "
        + " | ".join(
            _mark(_cpu(result.figures[name]) / _cpu(result.figures[peer]), limit, "{:.2f}") for result in results
        )
        for peer in peers
        for name, limit in CPU_TARGETS.items()
    ]
    rows += [
        f"{name}: resident at most {RESIDENT_TARGET_BYTES / 1e6:g} MB | "
        + " | ".join(
            _mark(result.figures[name].resident / 1e6, RESIDENT_TARGET_BYTES / 1e6, "{:.1f}") for result in results
        )
        for name in OURS
    ]
    return render_table("target | " + " | ".join(str(result.scenario) for result in results), rows)


def _cpu(figures: Figures) -> float:
    """The CPU seconds of one read of uWSGI: a scrape, and the sample that it serves."""
    return statistics.median(figures.cpu) + statistics.median(figures.sample)


def _mark(value: float, limit: float, form: str) -> str:
    return f"{form.format(value)} {'✓' if value <= limit else '✗'}"


# A browser's request behind a proxy: while uWSGI serves it, the stats contain all of it.
_REQUEST = (
    "GET /checkout/basket?io_ms=600000 HTTP/1.1\r\nHost: shop.example\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.5\r\n"
    f"Cookie: session={'0123456789abcdef' * 8}; consent={'x' * 64}\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n"
).encode()


@contextlib.contextmanager
def in_flight(uwsgi: real_uwsgi.Uwsgi, requests: int) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(requests):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", uwsgi.http), 10))
            client.sendall(_REQUEST)
            time.sleep(0.002)  # so that the listen queue does not overflow
        real_uwsgi.wait_until(
            lambda: uwsgi.document().count(b'"in_request":1') == requests, what="requests to be served"
        )
        yield


def main() -> None:
    options = _options()
    commands = dict(OURS)
    for flags in options.option:
        commands[f"ours, `{flags}`"] = f"{OURS[EVERYTHING]} {flags}"
    for peer in options.peer:
        name, equals, command = peer.partition("=")
        if not equals:
            raise SystemExit(f"--peer {peer}: must be NAME=COMMAND")
        commands[name] = command
    results: list[Result] = []
    for workers, threads in SIZES:
        busy = (0, workers * threads // 4)
        for result in measure((workers, threads), busy, commands, rounds=options.rounds, turns=options.turns):
            print(f"measured: {result.scenario}", file=sys.stderr)
            results.append(result)
    print(report(results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.scrape", description=__doc__)
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="FLAGS",
        help="measure our exporter with these flags too, such as --option=--no-waits; repeatable",
    )
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="another exporter to measure; {stats} in COMMAND is the path of the stats socket, {port} the port to "
        "serve /metrics at on 127.0.0.1; repeatable",
    )
    parser.add_argument("--rounds", type=int, default=9, help="rounds; figures are their median (default %(default)s)")
    parser.add_argument("--turns", type=int, default=15, help="scrapes per exporter and round (default %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
