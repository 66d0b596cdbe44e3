"""Compares what the exporter says that threads wait for with the application's own record of it.

Prints the table, misses included. The exit status is 0 whatever was measured.
"""

from __future__ import annotations

import argparse
import time

from tools.bench import table
from tools.bench.waits import judge
from tools.bench.waits.cases import CASES, SHORT
from tools.bench.waits.run import run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.waits", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="length of each case (default %(default)g)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains this text")
    parser.add_argument(
        "--uwsgi",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="run two of the cases with this uWSGI as well, for other versions of Python; repeatable",
    )
    options = parser.parse_args()
    begun = time.monotonic()
    results = []
    wanted = [(case.name, case, None) for case in CASES if options.only in case.name]
    for other in options.uwsgi:
        name, _, path = other.partition("=")
        wanted += [(f"{case.name}, {name}", case, path) for case in CASES if case.name in SHORT]
    for name, case, path in wanted:
        result = run(case, options.seconds, path)
        results.append((name, result))
        print("\n".join(judge.lines(name, result)), flush=True)
    text = "\n\n".join(
        [
            judge.table(results),
            judge.summary(results),
            f"{options.seconds:g} s per case, {(time.monotonic() - begun) / 60:.1f} min; load average at the end "
            f"{table.load_average()}. {table.machine()}",
        ]
    )
    print(text)


if __name__ == "__main__":
    main()
