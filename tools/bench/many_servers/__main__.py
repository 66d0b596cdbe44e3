"""Measures one exporter that watches many servers: its CPU, its memory, its scrapes and the rate of its samples.

Three situations, each without waits and routes, at one sample a second, with scrapes as Prometheus makes them:

* 200 real uWSGIs of 8 processes with 8 threads, with two requests a second each at random that take half a second, so
  that one is in service on average. With `--each 5`, the exporter watches each of them under five names.
* 1,000 vassals of 2 processes with 1 thread, of which one in twenty has such traffic. As many as fit into memory are
  real, under one Emperor; the others are stand-ins.
* 5,000 sockets, of which 1,000 are stand-ins and nobody listens on the others: once with the default of `max_servers`,
  and once with all of them watched.

CPU is user and system time of the exporter.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.stand_in_servers import short_folder, stale_sockets, stand_ins
from tools.bench import table
from tools.bench.many_servers.measure import Result, measure
from tools.bench.many_servers.servers import add_names, count_vassals, loaded, many_uwsgis, vassals

SCRAPE_SECONDS = 15
"""The usual interval of Prometheus."""

_TRAFFIC = 0.05


@dataclass(frozen=True)
class Target:
    """cpu: of one CPU, sampling and scrapes together; scrape: seconds; resident: bytes."""

    cpu: float
    scrape: float
    resident: float


@dataclass(frozen=True)
class Row:
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
    text = "\n\n".join([_report(rows), *_targets(rows), _said(rows), _note(), table.machine()])
    print(text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.many_servers", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only situations whose name contains this text")
    parser.add_argument("--servers", type=int, default=200, help="of 8x8 (default %(default)s)")
    parser.add_argument("--each", type=int, default=1, help="names that each is watched under (default %(default)s)")
    parser.add_argument("--vassals", type=int, default=1000, help="of 2x1 (default %(default)s)")
    parser.add_argument("--real", type=int, help="vassals that are real (default: as many as fit into memory)")
    parser.add_argument("--sockets", type=int, default=5000, help="stale or stand-in (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=60, help="of each measurement (default %(default)s)")
    return parser.parse_args()


def _servers(options: argparse.Namespace) -> list[Row]:
    threads = ("--processes", "8", "--threads", "8", "--thread-stacksize", "256")
    with many_uwsgis(options.servers, *threads, workers=8) as servers, loaded([server.http for server in servers]):
        paths = [path for server in servers for path in add_names(server.stats, options.each)]
        result = measure(paths, options.seconds)
    return [Row(f"{len(paths):,} of 8x8", result, Target(0.15, 0.2, 110e6))]


def _vassals(options: argparse.Namespace) -> list[Row]:
    real = count_vassals(options.vassals) if options.real is None else min(options.real, options.vassals)
    others = options.vassals - real
    patterns: list[str] = []
    with contextlib.ExitStack() as stack:
        if real:
            folder, http = stack.enter_context(vassals(real))
            patterns.append(f"{folder}/*.stats")
            stack.enter_context(loaded(http[:: round(1 / _TRAFFIC)]))
        if others:
            folder = stack.enter_context(short_folder())
            stack.enter_context(stand_ins(folder, others, 2, 1, _TRAFFIC))
            patterns.append(f"{folder}/*.stats")
        result = measure(patterns, options.seconds, max_servers=options.vassals)
    return [Row(f"{options.vassals:,} of 2x1, {real:,} of them real", result, Target(0.25, 1.0, 250e6))]


def _sockets(options: argparse.Namespace) -> list[Row]:
    answering = options.sockets // 5
    with (
        short_folder() as folder,
        stand_ins(folder, answering, 2, 1, _TRAFFIC),
        stale_sockets(folder, options.sockets - answering),
    ):
        name = f"{options.sockets:,} sockets, {answering:,} of which answer"
        return [
            Row(f"{name}; max_servers {most or 'as shipped'}", measure([f"{folder}/*.stats"], options.seconds, most))
            for most in (None, options.sockets)
        ]


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
                mark = "✓" if value <= most else "✗"
                lines.append(f"{row.name} | {name} | {form.format(value)} | {form.format(most)} | {mark}")
    return [table.render_table("servers | target | measured | at most | ", lines)] if lines else []


def _said(rows: Sequence[Row]) -> str:
    lines = [
        f"{row.name} | {message} | {number:,}" for row in rows for message, number in sorted(row.result.said.items())
    ]
    return table.render_table("servers | warning or error in the exporter's log | lines", lines or ["any | none | 0"])


def _note() -> str:
    return (
        "CPU is user and system time of the exporter; *of a sample* is the CPU without scrapes, divided by the samples "
        "of servers that are up, so that all other work counts too. Load average at the end, that of servers included: "
        f"{table.load_average()}."
    )


if __name__ == "__main__":
    main()
