"""Compares the exporter's figures with the records of a load that times its own requests.

Prints the table, with the source of the truth. The exit status is 0 whatever was measured.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial

from tests.support import monitoring
from tools.bench.accuracy import cases, percentiles, prometheus, queue_waits, table
from tools.bench.table import load_average

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
    beside = prometheus.beside if options.prometheus else cases.nothing
    runs = [
        *((case.name, partial(cases.run, case, seconds, beside)) for case in cases.every()),
        *((kind.name, partial(percentiles.run, kind, seconds)) for kind in percentiles.every()),
        *((queued.name, partial(queue_waits.run, queued, seconds)) for queued in queue_waits.every()),
    ]
    for name, run in runs:
        if options.only in name:
            judgements = run()
            print(table.lines(name, judgements), flush=True)
            lines += judgements
    missed = sum(line.met is False for line in lines)
    judged = sum(line.met is not None for line in lines)
    print(f"\n{judged - missed} of {judged} targets met, in {(time.monotonic() - begun) / 60:.1f} min.")
    print(f"Load average of the machine at the end: {load_average()}.")


if __name__ == "__main__":
    main()
