"""`python3 -m tools.bench.code`: prints where threads were seen beside the application's own record, and the cost.

With `--exporter SECONDS`, prints instead what an exporter with `--code` shows of the server, and the CPU that it takes.
"""

from __future__ import annotations

import argparse
import time

from tools.bench.code.exporter_cost import print_cost
from tools.bench.code.measure import FUNCTIONS, Compared, measure
from tools.bench.table import machine

LOOKS_A_SECOND = {"check --code": 10, "once a second": 1}


def main() -> None:
    """Measure one size of server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="8x8", help="PROCESSESxTHREADS (default 8x8)")
    parser.add_argument("--kept", type=int, default=3000, help="looks at busy threads to keep (default 3000)")
    parser.add_argument("--pause", type=float, default=0.1, help="mean seconds between looks (default 0.1)")
    parser.add_argument(
        "--exporter", type=int, metavar="SECONDS", help="watch with an exporter for so long, four times"
    )
    options = parser.parse_args()
    processes, threads = map(int, options.size.split("x"))
    if options.exporter:
        print(machine())
        print_cost(processes, threads, options.exporter)
        return
    began = time.monotonic()
    compared = measure(processes, threads, processes * threads // 2, options.kept, options.pause)
    print(machine())
    print_table(compared, time.monotonic() - began)


def print_table(compared: Compared, seconds: float) -> None:
    """Print what was compared. seconds: how long it took."""
    use = compared.use
    print("\n| function | its own record | looks | states |\n|---|---|---|---|")
    for function in FUNCTIONS:
        states = [(part, state) for (name, state), part in compared.states.items() if name == function]
        named = ", ".join(f"{state} {part:.1%}" for part, state in sorted(states, reverse=True))
        print(f"| {function} | {compared.truth[function]:.1%} | {compared.seen.get(function, 0):.1%} | {named} |")
    print(f"\nin none of these functions: {compared.elsewhere:.1%} of the looks")
    print(f"largest difference: {100 * compared.largest_difference:.1f} percentage points, {seconds:.0f} s")
    whole = use.threads + use.changed
    print(f"{use.looks} looks, at {use.threads:.0f} busy threads: {use.unread / use.threads:.2%} not read", end="; ")
    print(f"{use.changed} of {whole:.0f} dropped, because the thread went on ({use.changed / whole:.2%})")
    cost = use.cpu_seconds / use.looks
    print(f"{1e3 * cost:.2f} ms of CPU for one look at the server, with {use.threads / use.looks:.1f} busy threads")
    for name, looks in LOOKS_A_SECOND.items():
        print(f"{name}: {looks * cost:.2%} of a CPU")


if __name__ == "__main__":
    main()
