"""Measures whether requests take longer while their server's code is looked at: pairs of times with and without looks.

The server of both times is the same, and so is all but the look: its document is read once a second. Every second pair
begins with looks, so that a machine that grows slower meanwhile prefers neither.
"""

from __future__ import annotations

import math
import random
import statistics
import time

from tools.bench.clients import Kind, Plan, finish, running
from tools.bench.code.measure import Watched
from tools.bench.table import render_table
from tools.support.real_uwsgi import Uwsgi, uwsgi

PAIRS = 10

_T_97_5 = 2.262
"""Of Student's t, with PAIRS - 1 degrees of freedom: for an interval of 95 %."""


def run(processes: int, threads: int, seconds: float) -> None:
    """Print the pairs, each of two times of so many seconds, and the interval of the difference. Half of all threads
    are busy."""
    rows, ratios = [], []
    options = ["--processes", str(processes), "--threads", str(threads), "--disable-logging", "--listen", "100"]
    with uwsgi(*options) as server:
        _measure(server, processes * threads // 2, 3.0, True)
        for pair in range(PAIRS):
            p99 = {}
            for with_looks in (False, True) if pair % 2 else (True, False):
                p99[with_looks], number = _measure(server, processes * threads // 2, seconds, with_looks)
            ratios.append(p99[True] / p99[False])
            rows.append(
                f"{pair + 1} | {number} | {1e3 * p99[False]:.1f} | {1e3 * p99[True]:.1f} | {ratios[-1] - 1:+.1%}"
            )
    print(render_table("pair | requests in each | p99 without, ms | p99 with a look a second, ms | difference", rows))
    mean, half = statistics.mean(ratios) - 1, _T_97_5 * statistics.stdev(ratios) / math.sqrt(PAIRS)
    print(f"\ndifference: {mean:+.1%}, 95 % interval {mean - half:+.1%} to {mean + half:+.1%}")


def _measure(server: Uwsgi, clients: int, seconds: float, with_looks: bool) -> tuple[float, int]:
    """The 99th percentile of the response time, in seconds, and of how many requests it is."""
    plan = Plan(((server.http, 1.0),), (Kind(1.0, "/?io_ms=50&cpu_ms=1"),), clients=clients)
    with running(plan) as load:
        watched, end = Watched(server), time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(random.uniform(0.8, 1.2))
            watched.read()
            if with_looks:
                use = watched.look()
                assert use.off is None, use.off
        times = [answer.ended - answer.began for answer in finish(load).answers]
    return statistics.quantiles(times, n=100)[98], len(times)
