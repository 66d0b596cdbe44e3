"""`python -m tools.fleet COMMAND`: stand-in hosts, stores, measurements. Needs the stores' programs on PATH."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from tools.fleet import (
    answers,
    bytes_per_sample,
    capture,
    cardinality,
    hosts,
    keep,
    past,
    plan,
    sizes,
    stores,
    vmalert_rules,
)
from tools.fleet import run as runs

RULES = Path(__file__).resolve().parents[2] / "alerts" / "rules"
INTERVALS_AND_HOURS = ((60, 24.0), (15, 6.0))


def main() -> None:
    options = _options()
    COMMANDS[options.command](options)


def _capture(options: argparse.Namespace) -> None:
    capture.write(options.directory, capture.capture(options.workers, options.threads))


def _hosts(options: argparse.Namespace) -> None:
    captured = answers.read_captured(options.captured)
    asyncio.run(hosts.serve(captured, plan.Fleet(options.hosts), options.port))


def _run(options: argparse.Namespace) -> None:
    settings = runs.Settings(
        directory=options.directory.resolve(),
        captured=options.captured.resolve(),
        fleet=plan.Fleet(options.hosts),
        interval=options.interval,
        minutes=options.minutes,
        kinds=options.store,
        replicas=("a", "b")[: options.replicas],
        rules=[] if options.no_rules else _rule_files(),
        relabel=keep.relabelling(keep.needed(*options.keep)) if options.keep else [],
    )
    runs.run(settings)


def _past(options: argparse.Namespace) -> None:
    result = past.measure(options.directory.resolve())
    (options.directory / "results.json").write_text(json.dumps(result, indent=1))


def _bytes(options: argparse.Namespace) -> None:
    captured = answers.read_captured(options.captured)
    for interval, hours in INTERVALS_AND_HOURS:
        print(json.dumps(bytes_per_sample.measure(options.directory.resolve(), captured, interval, hours)))


def _series(_options: argparse.Namespace) -> None:
    for name, number in cardinality.coefficients().items():
        print(f"| {name} | {number} |")
    print(f"\n{sizes.shapes()}\n\nwithout dashboards: {sizes.kept('rules', 'report')} of {sizes.kept()}")


def _sizes(_options: argparse.Namespace) -> None:
    print(sizes.table())


def _keep(options: argparse.Namespace) -> None:
    print(json.dumps(keep.relabelling(keep.needed(*options.keep)), indent=1))


def _rules(options: argparse.Namespace) -> None:
    vmalert_rules.write(_rule_files(), options.directory)


def _rule_files() -> list[Path]:
    return sorted(file for file in RULES.glob("*.yaml") if not file.name.startswith("compat-"))


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "capture": _capture,
    "hosts": _hosts,
    "run": _run,
    "past": _past,
    "bytes": _bytes,
    "series": _series,
    "sizes": _sizes,
    "keep": _keep,
    "rules": _rules,
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.fleet", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    taken = commands.add_parser("capture", help="capture two expositions of a real uWSGI under load")
    taken.add_argument("--workers", type=int, default=8)
    taken.add_argument("--threads", type=int, default=8)
    served = commands.add_parser("hosts", help="serve the expositions of stand-in hosts until Ctrl-C")
    served.add_argument("--port", type=int, required=True)
    ran = commands.add_parser("run", help="run stores on stand-in hosts, then compare and measure")
    ran.add_argument("--store", action="append", choices=sorted(stores.KINDS), required=True)
    ran.add_argument("--interval", type=int, default=60, help="seconds between scrapes (default %(default)s)")
    ran.add_argument("--minutes", type=float, default=20, help="length of the measurement (default %(default)s)")
    ran.add_argument("--replicas", type=int, choices=(1, 2), default=1, help="scrapers of each store")
    ran.add_argument("--no-rules", action="store_true", help="load no rules")
    old = commands.add_parser("past", help="read months of history from all stores, downsampled too")
    measured = commands.add_parser("bytes", help="measure the bytes of a sample at rest")
    commands.add_parser("series", help="print the terms of the number of series")
    commands.add_parser("sizes", help="print the sizes of fleets")
    kept = commands.add_parser("keep", help="print metric_relabel_configs that keep what is needed")
    written = commands.add_parser("rules", help="write the rules for vmalert 1.79")
    for command in (served, ran):
        command.add_argument("--hosts", type=int, default=500, help="hosts with 4 servers each (default %(default)s)")
    for command in (served, ran, measured):
        command.add_argument("--captured", type=Path, required=True, help="directory that `capture` wrote")
    for command in (ran, kept):
        command.add_argument("--for", dest="keep", action="append", default=[], choices=sorted(keep.SOURCES),
                             help="keep only what these need; repeatable")  # fmt: skip
    for command in (taken, ran, old, measured, written):
        command.add_argument("directory", type=Path, help="to write to")
    return parser.parse_args()


if __name__ == "__main__":
    main()
