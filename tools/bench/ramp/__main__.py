"""Predicts from a moderate load when requests wait and what a server serves at most, then raises the load to see.

`python3 -m tools.bench.ramp` takes about 25 minutes. The exit status is 0 whatever was measured.
"""

from __future__ import annotations

import argparse
import time

from tools.bench import table
from tools.bench.ramp import judge
from tools.bench.ramp.cases import GROUPS, HOT, LIMIT, WAITING
from tools.bench.ramp.run import LEAST_REQUESTS, Result, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.ramp", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="length of each step (default %(default)g)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only servers whose kind contains this text")
    options = parser.parse_args()
    began = time.monotonic()
    results: list[Result] = []
    for group in GROUPS:
        cases = [case for case in group if options.only in f"{case.name} {case.setting}"]
        if not cases:
            continue
        found = run(cases, options.seconds)
        results += found
        print(judge.table(found), flush=True)
    text = _report(results, options.seconds, (time.monotonic() - began) / 60)
    print(text)


def _report(results: list[Result], seconds: float, minutes: float) -> str:
    return "\n\n".join(
        [
            judge.table(results),
            judge.summary(results)
            + f" Tolerances: {LIMIT:.0%} for the most, {WAITING:.0%} for the load at which requests wait, "
            f"{HOT:.0%} for that of a hot worker.",
            f"Predicted → measured. Each prediction is from {LEAST_REQUESTS:,} requests or more. Steps of {seconds:g} "
            f"s, {minutes:.0f} min in all. Other programs: the CPUs in use by programs that are no part of the bench "
            f"during the steps. Load average at the end {table.load_average()}. {table.machine()}",
        ]
    )


if __name__ == "__main__":
    main()
