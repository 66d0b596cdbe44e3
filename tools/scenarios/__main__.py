"""Runs all scenarios or the named ones, and prints the differences. The exit status is 1 if there is any."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import time
from pathlib import Path

from tools.generated_files import replace_section
from tools.scenarios.everything import count, estimate, plan, render_table, vary
from tools.scenarios.report import full_text, line, markdown
from tools.scenarios.rows import find_rows
from tools.scenarios.run import Result, run_rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.scenarios", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows whose name contains this text (default: all)")
    parser.add_argument("--all", action="store_true", help="run healthy twins and two random variations of each, too")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write a line for each row into this document")
    parser.add_argument("--vary", type=int, metavar="SEED", help="run a wide random variation of each row")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="write the whole text of each verdict, as it comes")
    parser.add_argument("--seed", type=int, default=1, help="seed of the variations (default %(default)s)")
    options = parser.parse_args()
    try:
        rows = find_rows(options.names)
    except LookupError as error:
        parser.error(str(error))
    table = plan(rows, options.seed) if options.all else []
    if options.vary is not None:
        rows = [vary(row, options.vary) for row in rows]
    elif table:
        rows = [run for each in table for run in (each.row, *each.variations)]
    print(f"{len(rows)} runs, about {math.ceil(estimate(rows) / 60)} min.", flush=True)
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        texts = None
        if options.texts:
            options.texts.parent.mkdir(parents=True, exist_ok=True)
            texts = stack.enter_context(options.texts.open("w"))

        def report(result: Result) -> None:
            print(line(result), flush=True)
            if texts:
                print(full_text(result), file=texts, flush=True)

        results = run_rows(rows, report)
    seconds = time.monotonic() - begun
    if options.write:
        document = replace_section(options.write.read_text(), "scenarios", f"{markdown(results)}\n")
        options.write.write_text(document)
    for each in render_table(table, {result.row.name: result for result in results}) if table else ():
        print(each)
    print(f"{count(results)} {seconds:.0f} s.")
    return min(1, sum(bool(result.different) for result in results))


if __name__ == "__main__":
    sys.exit(main())
