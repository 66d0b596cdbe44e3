"""Compares the limit that the exporter finds for a lock of the application with what the server then serves.

`python3 -m tools.bench.waits.locks` runs each server under an open load of requests at random, of which 60 % hold a
lock for 80 ms, and prints the limit and what-if's most throughput in other settings; then it runs these settings with
more clients than they serve. It takes 15 minutes. `SETTING LOCK REQUESTS_PER_SECOND [read]`, as in `4x8 lock 40 read`,
runs one case; 0 requests/s: as many as 60 clients get.
"""

from __future__ import annotations

import asyncio
import sys
import time

from tools.bench import table
from tools.bench.clients import Kind, Plan, prefix, running
from tools.bench.ramp.run import APP
from tools.bench.window import serving, watch
from uwsgi_headroom.analysis.what_if import measure_server, parse_setting, predict_settings

SECONDS, WARM_UP_SECONDS = 45, 3
CLIENTS = 60
OTHERS = ("4x16", "8x4", "32x1")

CASES = (
    *(("4x8", "lock", rate, read) for rate in (33, 40, 50, 60) for read in (True, False)),
    ("4x8", "rlock", 50, True),
    ("4x8", "condition", 50, True),
    ("4x8", "two", 40, True),
    ("4x8", "flock", 12, False),
    ("4x8", "semaphore", 60, True),
    *((setting, "lock", 0, True) for setting in ("4x8", *OTHERS)),
    ("8x4", "flock", 0, False),
)
"""Setting, lock, requests a second, and whether the lock is read. All requests of `two` and `semaphore` hold it."""

HEAD = "setting | lock | load, requests/s | read | served, requests/s | limit | from | to | what-if: " + " | ".join(
    OTHERS
)


def main() -> None:
    cases = CASES
    if given := sys.argv[1:]:
        cases = ((given[0], given[1], int(given[2]), given[3:] == ["read"]),)
    rows = [_row(*case) for case in cases]
    print(table.render_table(HEAD, rows))
    print(f"\n{SECONDS} s each. {table.machine()}")


def _row(text: str, lock: str, rate: int, read: bool) -> str:
    setting = parse_setting(text)
    held = 1.0 if lock in ("two", "semaphore") else 0.6
    kinds = Kind(held, f"/{lock}/0.08"), Kind(1 - held, "/sleep/0.02")
    options = ("--wsgi-file", str(APP), "--http-socket", "{directory}/web")
    with serving(setting.processes, setting.threads, *options) as server:
        load = Plan(((str(server.directory / "web"), 1.0),), kinds, ((rate, 3600.0),) if rate else (), CLIENTS)
        with running(load, prefix()):
            time.sleep(WARM_UP_SECONDS)
            (figures,) = asyncio.run(watch([server.stats], SECONDS, read_locks=read))
    found = figures.lock
    limits = [f"{value:.1f}" for value in (found.limit, found.least_limit, found.most_limit)] if found else ["-"] * 3
    predicted = [""] * len(OTHERS)
    if rate and found:
        what_if = predict_settings(measure_server(figures), [parse_setting(other) for other in OTHERS])
        predicted = [f"{prediction.most_throughput:.0f}" for prediction in what_if.predictions]
    served = f"{figures.flow.throughput or 0.0:.1f}"
    return " | ".join([text, lock, str(rate or "full"), "yes" if read else "no", served, *limits, *predicted])


if __name__ == "__main__":
    main()
