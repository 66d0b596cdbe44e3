"""Compares the lines of code in which threads are seen with the application's own record, and their cost.

`--p99` measures whether requests take longer while their server is looked at (`p99`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

from tools.bench.code import p99
from tools.bench.code.measure import FUNCTIONS, Compared, measure
from tools.bench.table import machine, render_table
from tools.scenarios.client_environment import needs

LOOKS_A_SECOND = {"check --code": 10, "once a second": 1}
FRAMEWORKS = ("plain", "flask", "django")


def main() -> None:
    """Measure one size of server."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.code", description=__doc__)
    parser.add_argument("--size", default="8x8", help="PROCESSESxTHREADS (default %(default)s)")
    parser.add_argument("--clients", type=int, default=8, help="requests at a time (default %(default)s)")
    parser.add_argument("--kept", type=int, default=3000, help="looks at busy threads to keep (default %(default)s)")
    parser.add_argument("--pause", type=float, default=0.1, help="mean seconds between looks (default %(default)s)")
    parser.add_argument("--framework", choices=FRAMEWORKS, action="append", help="default: each")
    parser.add_argument("--realtime", action="store_true", help="let no other program delay a look (as root)")
    parser.add_argument("--p99", action="store_true", help="measure ten pairs of times with and without looks")
    parser.add_argument("--seconds", type=float, default=20, help="of each of these times (default %(default)g)")
    options = parser.parse_args()
    processes, threads = map(int, options.size.split("x"))
    print(machine())
    if options.p99:
        p99.run(processes, threads, options.seconds)
        return
    for framework in options.framework or FRAMEWORKS:
        if reason := needs("django")() if framework == "django" else None:
            print(f"\n{framework}: {reason}")
            continue
        began = time.monotonic()
        compared = measure(
            processes,
            threads,
            options.clients,
            options.kept,
            options.pause,
            framework,
            realtime=options.realtime,
        )
        print(f"\n{framework}, {options.size}, {options.clients} requests at a time\n")
        print_table(compared, time.monotonic() - began)


def print_table(compared: Compared, seconds: float) -> None:
    """Print what was compared. seconds: how long it took."""
    use = compared.use
    rows = [
        f"{each.name} | {each.truth:.1%} | {each.looks:.0f} | {each.seen:.1%} | "
        f"{each.ratio:.2f} ± {each.error:.2f} | {_list(each.states.items())}"
        for each in compared.functions
    ]
    print(render_table("function | its own record | looks | their share | looks / record | states", rows))
    print(f"\nlargest difference: {100 * compared.largest_difference:.1f} percentage points, {seconds:.0f} s")
    computing = [each for each in compared.functions if FUNCTIONS[each.name] == "cpu"]
    ratio = sum(each.seen for each in computing) / sum(each.truth for each in computing)
    print(f"of the time of functions that compute, {ratio:.0%} was seen; a tenth of the looks was late by", end=" ")
    print(f"{1e3 * compared.late:.1f} ms or more")
    print(f"threads that run or could run: {compared.ready:.2f} by the kernel, {compared.seen_ready:.2f} by looks")
    print(f"busy threads in them: {compared.busy:.2f} by the record, {compared.seen_busy:.2f} by looks")
    print(f"in none of these functions: {sum(compared.elsewhere.values()):.1%} of the looks:", end=" ")
    print(_list(compared.elsewhere.items()))
    whole = use.threads + use.changed
    print(f"{use.looks} looks, at {use.threads:.0f} busy threads: {use.unread / use.threads:.2%} not read", end="; ")
    print(f"{use.changed} of {whole:.0f} dropped, because the thread went on ({use.changed / whole:.2%})")
    cost = use.cpu_seconds / use.looks
    print(f"{1e3 * cost:.2f} ms of CPU for one look at the server, with {use.threads / use.looks:.1f} busy threads")
    for name, looks in LOOKS_A_SECOND.items():
        print(f"{name}: {looks * cost:.2%} of a CPU")


def _list(parts: Iterable[tuple[str, float]]) -> str:
    """The largest parts, each with its name."""
    named = sorted(parts, key=lambda item: -item[1])[:4]
    return ", ".join(f"{name or 'outside of Python'} {part:.1%}" for name, part in named)


if __name__ == "__main__":
    main()
