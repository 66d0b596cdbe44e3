"""The command: run the cases, print the table, say where the truth comes from. Exit status 0 whatever was measured."""

from __future__ import annotations

import argparse
import os
import time

from tests.support import monitoring
from tools.bench.accuracy import cases, prometheus, table

QUICK = 8.0

PREAMBLE = """\
Truth: the load's own records. Requests and workers are counted by the clients. Concurrency is the time that requests
spent in the application, by the application's clock, over the same window as ours; "clients' own" says how much more
the clients saw from connected to end, and so how little the truth may be trusted. Queue wait: the clients' time from
connected to end, less uWSGI's running time a request. Sampling error: sqrt(L/n)/L for n samples of a mean of L.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.accuracy", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="length of each case (default %(default)g)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:g} s each, for development")
    parser.add_argument("--only", default="", metavar="TEXT", help="the cases whose name has this text")
    parser.add_argument("--prometheus", action="store_true", help="ask a real Prometheus for the rules, too")
    options = parser.parse_args()
    if options.prometheus:
        try:
            monitoring.find("prometheus")
        except RuntimeError as error:
            parser.error(str(error))
    seconds = QUICK if options.quick else options.seconds
    print(f"{PREAMBLE}\n{seconds:g} s a case, {os.cpu_count()} CPUs.\n\n{table.header()}", flush=True)
    begun, lines = time.monotonic(), []
    for case in cases.every():
        if options.only in case.name:
            judgements = cases.run(case, seconds, prometheus.beside if options.prometheus else cases.nothing)
            print(table.lines(case.name, judgements), flush=True)
            lines += judgements
    missed = sum(line.met is False for line in lines)
    judged = sum(line.met is not None for line in lines)
    print(f"\n{judged - missed} of {judged} targets met, in {(time.monotonic() - begun) / 60:.1f} min.")
    load = "/".join(f"{average:.1f}" for average in os.getloadavg())
    print(f"Load average of the machine at the end: {load}.")


if __name__ == "__main__":
    main()
