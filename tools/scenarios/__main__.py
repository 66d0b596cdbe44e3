"""Runs all scenarios or the named ones, and prints the differences. The exit status is 1 if there is any."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tools.scenarios.report import line, markdown
from tools.scenarios.run import Result, run_rows
from tools.scenarios.table import find_rows
from tools.scenarios.variations import vary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.scenarios", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows whose name contains this text (default: all)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the report as Markdown")
    parser.add_argument("--variations", type=int, default=0, metavar="N", help="run N variations instead of each row")
    parser.add_argument("--seed", type=int, default=1, help="seed of the variations (default %(default)s)")
    options = parser.parse_args()
    try:
        rows = find_rows(options.names)
    except LookupError as error:
        parser.error(str(error))
    if options.variations:
        rows = [vary(row, number, options.seed) for row in rows for number in range(1, options.variations + 1)]
    begun = time.monotonic()
    results = run_rows(rows, _say)
    seconds = time.monotonic() - begun
    if options.write:
        options.write.write_text(markdown(results, seconds))
    different = sum(bool(result.different) for result in results)
    skipped = sum(bool(result.skipped) for result in results)
    print(f"{len(results) - different - skipped} as expected, {different} not, {skipped} skipped; {seconds:.0f} s.")
    return min(1, different)


def _say(result: Result) -> None:
    print(line(result), flush=True)


if __name__ == "__main__":
    sys.exit(main())
