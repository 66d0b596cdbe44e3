"""`python -m tools.fleet COMMAND`: stand-in hosts, stores, measurements. Needs the stores' programs on PATH."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from tools.fleet import answers, capture, hosts, plan, stores
from tools.fleet import run as runs

RULES = Path(__file__).resolve().parents[2] / "alerts" / "rules"


def main() -> None:
    options = _options()
    if options.command == "capture":
        capture.write(options.directory, capture.capture(options.workers, options.threads))
    elif options.command == "hosts":
        fleet = plan.Fleet(options.hosts)
        asyncio.run(hosts.serve(answers.read_captured(options.captured), fleet, options.port))
    elif options.command == "run":
        settings = runs.Settings(
            options.directory.resolve(),
            options.captured.resolve(),
            plan.Fleet(options.hosts),
            options.interval,
            options.minutes,
            options.store,
            ("a", "b")[: options.replicas],
            [] if options.no_rules else sorted(RULES.glob("*.yaml")),
            options.relabel,
        )
        runs.run(settings)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.fleet", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    taken = commands.add_parser("capture", help="capture two expositions of a real uWSGI under load")
    taken.add_argument("directory", type=Path)
    taken.add_argument("--workers", type=int, default=8)
    taken.add_argument("--threads", type=int, default=8)
    served = commands.add_parser("hosts", help="serve the expositions of stand-in hosts until Ctrl-C")
    served.add_argument("--port", type=int, required=True)
    ran = commands.add_parser("run", help="run stores on stand-in hosts, then compare and measure")
    ran.add_argument("directory", type=Path, help="for data, logs and results.json")
    ran.add_argument("--store", action="append", choices=sorted(stores.KINDS), required=True)
    ran.add_argument("--interval", type=int, default=60, help="seconds between scrapes (default %(default)s)")
    ran.add_argument("--minutes", type=float, default=20, help="length of the measurement (default %(default)s)")
    ran.add_argument("--replicas", type=int, choices=(1, 2), default=1, help="scrapers of each store")
    ran.add_argument("--relabel", type=Path, help="JSON file with metric_relabel_configs")
    ran.add_argument("--no-rules", action="store_true", help="load no rules")
    for command in (served, ran):
        command.add_argument("--hosts", type=int, default=500, help="hosts with 4 servers each (default %(default)s)")
        command.add_argument("--captured", type=Path, required=True, help="directory that `capture` wrote")
    return parser.parse_args()


if __name__ == "__main__":
    main()
