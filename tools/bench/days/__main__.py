"""Simulates days of healthy servers, and counts pages and CRITICAL findings.

`python3 -m tools.bench.days` takes about 30 minutes of one CPU. The exit status is 1 if somebody was paged, or if a
finding was CRITICAL while no users were hurt.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from tools.bench.days import course, findings, healthy, pages
from tools.bench.days.report import Verdicts, join, report, summary

TOGETHER = 25
"""Days that are simulated by a process in turn, and whose stretches promtool evaluates together."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.days", description=__doc__)
    parser.add_argument("--days", type=int, default=1000, help="number of days (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first day; the others follow (default 1)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default %(default)s)")
    options = parser.parse_args()
    end = options.seed + options.days
    parts = [range(first, min(end, first + TOGETHER)) for first in range(options.seed, end, TOGETHER)]
    results: list[Verdicts] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for result in pool.map(simulate, parts):
            results.append(result)
            print(summary(join(results)), flush=True)
    verdicts = join(results)
    print(report(verdicts))
    return 1 if verdicts.pages or verdicts.unexplained else 0


def simulate(seeds: Iterable[int]) -> Verdicts:
    began = time.process_time() + pages.cpu_seconds()
    days: list[healthy.Day] = []
    simulated: list[float] = []
    episodes: list[findings.Episode] = []
    stretches: list[pages.Stretch] = []
    requests = 0.0
    for seed in seeds:
        ran = course.run(healthy.draw(seed))
        days.append(ran.day)
        simulated.append(float(ran.simulated.mean()))
        requests += float(ran.requests.sum())
        episodes += findings.judge_day(ran)
        stretches += pages.find_stretches(ran)
    minutes = sum(stretch.last - stretch.first for stretch in stretches)
    found = pages.find_pages(stretches)
    seconds = time.process_time() + pages.cpu_seconds() - began
    return Verdicts(days, simulated, requests, episodes, found, len(stretches), minutes, seconds)


if __name__ == "__main__":
    sys.exit(main())
