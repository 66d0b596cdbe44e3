"""Runs the cases and prints the table, with the source of the truth. The exit status is 0 whatever was measured."""

from __future__ import annotations

import argparse
import os
import time

from tools.bench.accuracy import cases, percentiles, prometheus, queue_waits, table
from tools.support import monitoring

QUICK = 8.0

PREAMBLE = """\
Truth: the load's own records. The clients count requests and workers. Concurrency is the time that requests spent in
the application, by the application's clock, over the same window as ours; "clients' own" is how much more the clients
saw from connection to end, and so bounds the error of the truth. Queue wait: the clients' time from connection to end,
less uWSGI's running time per request. Sampling error: sqrt(L/n)/L for n samples of a mean of L.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.accuracy", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="length of each case (default %(default)g)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:g} s per case, for development")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains this text")
    parser.add_argument("--prometheus", action="store_true", help="evaluate the rules in a real Prometheus, too")
    options = parser.parse_args()
    if options.prometheus:
        try:
            monitoring.find("prometheus")
        except RuntimeError as error:
            parser.error(str(error))
    seconds = QUICK if options.quick else options.seconds
    print(f"{PREAMBLE}\n{seconds:g} s per case, {os.cpu_count()} CPUs.\n\n{table.header()}", flush=True)
    begun, lines = time.monotonic(), []
    for case in cases.every():
        if options.only in case.name:
            judgements = cases.run(case, seconds, prometheus.beside if options.prometheus else cases.nothing)
            print(table.lines(case.name, judgements), flush=True)
            lines += judgements
    for kind in percentiles.every():
        if options.only in kind.name:
            judgements = percentiles.run(kind, seconds)
            print(table.lines(kind.name, judgements), flush=True)
            lines += judgements
    for queued in queue_waits.every():
        if options.only in queued.name:
            judgements = queue_waits.run(queued, seconds)
            print(table.lines(queued.name, judgements), flush=True)
            lines += judgements
    missed = sum(line.met is False for line in lines)
    judged = sum(line.met is not None for line in lines)
    print(f"\n{judged - missed} of {judged} targets met, in {(time.monotonic() - begun) / 60:.1f} min.")
    load = "/".join(f"{average:.1f}" for average in os.getloadavg())
    print(f"Load average of the machine at the end: {load}.")


if __name__ == "__main__":
    main()
