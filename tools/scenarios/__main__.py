"""Runs all scenarios or the named ones, and prints the differences. The exit status is 1 if there is any."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tools.bench.table import write
from tools.scenarios.report import BEGIN, END, full_text, line, markdown
from tools.scenarios.run import Result, run_rows
from tools.scenarios.table import find_rows
from tools.scenarios.variations import vary, vary_widely


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.scenarios", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows whose name contains this text (default: all)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the report as Markdown")
    parser.add_argument("--variations", type=int, default=0, metavar="N", help="run N variations instead of each row")
    parser.add_argument("--vary", type=int, metavar="SEED", help="run a wide random variation of each row")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="write the whole text of each verdict")
    parser.add_argument("--seed", type=int, default=1, help="seed of the variations (default %(default)s)")
    options = parser.parse_args()
    try:
        rows = find_rows(options.names)
    except LookupError as error:
        parser.error(str(error))
    if options.variations:
        rows = [vary(row, number, options.seed) for row in rows for number in range(1, options.variations + 1)]
    if options.vary is not None:
        rows = [vary_widely(row, options.vary) for row in rows]
    begun = time.monotonic()
    results = run_rows(rows, _say)
    seconds = time.monotonic() - begun
    if options.write:
        write(options.write, markdown(results, seconds), BEGIN, END)
    if options.texts:
        options.texts.write_text("\n".join(map(full_text, results)))
    different = sum(bool(result.different) for result in results)
    skipped = sum(bool(result.skipped) for result in results)
    print(f"{len(results) - different - skipped} as expected, {different} not, {skipped} skipped; {seconds:.0f} s.")
    return min(1, different)


def _say(result: Result) -> None:
    print(line(result), flush=True)


if __name__ == "__main__":
    sys.exit(main())
