"""Measures what a scrape and a sample cost: our exporter, with other options, and other exporters, side by side.

Each exporter takes its turn against a real uWSGI of two sizes, idle and with requests in flight. The exit status does
not depend on the figures.
"""

from __future__ import annotations

import argparse
import sys

from tools.bench import exporters
from tools.bench.scrape.measure import Result, measure
from tools.bench.scrape.report import report

SIZES = ((8, 8), (64, 16))


def main() -> None:
    options = _options()
    commands = dict(exporters.OURS)
    for flags in options.option:
        commands[f"ours, `{flags}`"] = f"{exporters.OURS[exporters.EVERYTHING]} {flags}"
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
    print(report(results, options.rounds * options.turns))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.scrape", description=__doc__)
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="FLAGS",
        help='measure our exporter with these flags too, such as --option="--waits false"; repeatable',
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
