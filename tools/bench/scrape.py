"""Measures what a scrape and a sample cost: our exporter, with other options, and other exporters, side by side.

Each takes its turn against a real uWSGI of two sizes, idle and with requests in flight, in a random order, so that
other activity of the machine affects all. CPU is that of the whole process: median and range of the rounds. What an
exporter uses at rest (our sampling) is subtracted from its scrapes. Ours answers a scrape from its last sample, the
others read uWSGI for it: one read costs ours a sample and a scrape. *Same content* is ours without sampling
(`document_only`).
"""

import argparse
import contextlib
import random
import socket
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support import real_uwsgi
from tests.support.real_uwsgi import Uwsgi, sized, wait_until
from tools.bench import exporters
from tools.bench.exporters import EVERYTHING, OURS, SAME_CONTENT, Exporter, cpu_seconds
from tools.bench.table import machine, mark, render_table, spread

SIZES = ((8, 8), (64, 16))


PAUSE_SECONDS = 0.12
"""The least time between two scrapes of one exporter."""

_REST_SECONDS = 2.0

_AFTERWARDS_SECONDS = 0.02
"""Work of an exporter within this time after its response (garbage collection) counts as part of the scrape."""


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


class Result(NamedTuple):
    """One scenario, such as `8x8, idle`: the size of its stats document, and each exporter's figures by name."""

    scenario: str
    document: int
    figures: Mapping[str, Figures]


def measure(
    size: tuple[int, int], busy: Sequence[int], commands: Mapping[str, str], *, rounds: int, turns: int
) -> Iterator[Result]:
    workers, threads = size
    with contextlib.ExitStack() as stack:
        uwsgi = stack.enter_context(real_uwsgi.uwsgi(*sized(workers, threads)))
        wait_until(lambda: uwsgi.document().count(b'"accepting":1') == workers, what="workers to accept")
        running = [
            stack.enter_context(exporters.running(name, command, uwsgi.stats)) for name, command in commands.items()
        ]
        for requests in busy:
            with in_flight(uwsgi, requests):
                figures = _figures(running, uwsgi, rounds, turns)
                busy_with = f"{requests} in flight" if requests else "idle"
                yield Result(f"{workers}x{threads}, {busy_with}", len(uwsgi.document()), figures)


def _figures(running: list[Exporter], uwsgi: Uwsgi, rounds: int, turns: int) -> dict[str, Figures]:
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
    scrapes: dict[str, list[tuple[float, float, float]]] = {exporter.name: [] for exporter in running}
    order = random.sample(running, len(running))
    for _ in range(turns):
        for exporter in order:
            time.sleep(max(0.0, PAUSE_SECONDS / len(running) - _AFTERWARDS_SECONDS))
            scrapes[exporter.name].append(_scrape(exporter, master_pid))
    for name, taken in scrapes.items():
        seconds, cpu_of_each, master_cpu = zip(*taken, strict=True)
        figures[name].scrape += seconds
        figures[name].master_cpu += master_cpu
        beside = rest[name] * (statistics.fmean(seconds) + _AFTERWARDS_SECONDS)
        figures[name].cpu.append(max(0.0, statistics.fmean(cpu_of_each) - beside))


def _scrape(exporter: Exporter, master_pid: int) -> tuple[float, float, float]:
    """Seconds until the response was complete; CPU seconds of the exporter and of uWSGI's master."""
    cpu, master_cpu = exporter.cpu_seconds(), cpu_seconds(master_pid)
    seconds = exporter.scraper.scrape().seconds
    time.sleep(_AFTERWARDS_SECONDS)
    return seconds, exporter.cpu_seconds() - cpu, cpu_seconds(master_pid) - master_cpu


RESIDENT_TARGET_MB = 45.0
CPU_TARGETS = {SAME_CONTENT: 0.5, EVERYTHING: 1.0}

SCRAPE_INTERVAL_SECONDS = 15


def _measured(results: Sequence[Result]) -> str:
    head = (
        "server | exporter | CPU a scrape, ms | CPU a sample, ms | CPU at rest, ms/s | of one CPU | scrape, ms | "
        "resident, MB | series | answer, kB | master's CPU, ms"
    )
    return render_table(head, [_row(result, *each) for result in results for each in result.figures.items()])


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
    measured, rows = [result.figures for result in results], []
    for peer in (name for name in measured[0] if not name.startswith("ours")):
        for name, limit in CPU_TARGETS.items():
            marks = [_mark(_cpu(each[name]) / _cpu(each[peer]), limit, "{:.2f}") for each in measured]
            what = f"CPU of a scrape{' and a sample' * (name == EVERYTHING)}"
            rows.append(" | ".join([f"{name}: {what} at most {limit:g} x that of {peer}", *marks]))
    for name in OURS:
        marks = [_mark(each[name].resident / 1e6, RESIDENT_TARGET_MB, "{:.1f}") for each in measured]
        rows.append(" | ".join([f"{name}: resident at most {RESIDENT_TARGET_MB:g} MB", *marks]))
    return render_table(" | ".join(["target", *(result.scenario for result in results)]), rows)


def _cpu(figures: Figures) -> float:
    """The CPU seconds of one read of uWSGI: a scrape, and the sample that it serves."""
    return statistics.median(figures.cpu) + statistics.median(figures.sample)


def _mark(value: float, limit: float, form: str) -> str:
    return f"{form.format(value)} {mark(value <= limit)}"


# A browser's request behind a proxy: while uWSGI serves it, the stats contain all of it.
_REQUEST = (
    "GET /checkout/basket?io_ms=600000 HTTP/1.1\r\nHost: shop.example\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.5\r\n"
    f"Cookie: session={'0123456789abcdef' * 8}; consent={'x' * 64}\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n"
).encode()


@contextlib.contextmanager
def in_flight(uwsgi: Uwsgi, requests: int) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(requests):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", uwsgi.http), 10))
            client.sendall(_REQUEST)
            time.sleep(0.002)  # so that the listen queue does not overflow
        wait_until(lambda: uwsgi.document().count(b'"in_request":1') == requests, what="requests to be served")
        yield


def main() -> None:
    options = _options()
    commands = OURS | {f"ours, `{flags}`": f"{OURS[EVERYTHING]} {flags}" for flags in options.option}
    for peer in options.peer:
        name, equals, commands[name] = peer.partition("=")
        if not equals:
            raise SystemExit(f"--peer {peer}: must be NAME=COMMAND")
    results: list[Result] = []
    for workers, threads in SIZES:
        busy = (0, workers * threads // 4)
        for result in measure((workers, threads), busy, commands, rounds=options.rounds, turns=options.turns):
            print(f"measured: {result.scenario}", file=sys.stderr)
            results.append(result)
    print(_measured(results), _targets(results), machine(), sep="\n\n")


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
