"""Measures what a scrape costs: `python3 -m tools.bench.scrape [--peer NAME=COMMAND] [--write FILE]`.

Measures our exporter, and those named with `--peer`, against a real uWSGI of two sizes, idle and with requests in
flight. Prints Markdown with the figures and whether they meet the targets. The exit status does not depend on them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.bench import exporters, table
from tools.bench.measure import Result, measure

SIZES = ((8, 8), (64, 16))


def main() -> None:
    options = _options()
    commands = dict(exporters.OURS)
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
    text = table.report(results, options.rounds * options.turns)
    print(text)
    if options.write:
        table.write(options.write, text)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.scrape", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="another exporter to measure; {stats} in COMMAND is the path of the stats socket, {port} the port to "
        "serve /metrics at on 127.0.0.1; repeatable",
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help=f"put the tables between {table.BEGIN} and its end")
    parser.add_argument("--rounds", type=int, default=9, help="rounds; figures are their median (default %(default)s)")
    parser.add_argument("--turns", type=int, default=15, help="scrapes per exporter and round (default %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
