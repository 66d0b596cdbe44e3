"""Compares the closed form of a server with a simulation of its requests, in many settings drawn by a seed.

`python3 -m tests.analysis.closed_form_errors 400` prints how far the closed form is off.
"""

import random
import sys
from collections.abc import Iterable, Mapping
from statistics import fmean, median, quantiles

from tests.analysis.request_simulation import Simulation, System, Work, exponential_factors
from uwsgi_headroom.analysis.repairman import Model, find_times, flow_equivalent

LOADS = (0.5, 0.8)
"""As parts of the most throughput."""

MOST_THREADS = 192
"""Of a server: more take long to simulate."""

_EXPONENTIAL = exponential_factors()


def draw(chance: random.Random) -> tuple[System, Work]:
    """A server and its requests: up to 16 processes and 32 threads; a quarter computes outside of the interpreter lock
    as well, a quarter holds a lock of the application, and a quarter has one worker with more requests."""
    processes = chance.choice((1, 2, 3, 4, 6, 8, 12, 16))
    threads = min(chance.choice((1, 2, 3, 4, 6, 8, 12, 16, 24, 32)), MOST_THREADS // processes)
    computing = chance.choice((0.002, 0.005, 0.01, 0.02, 0.04))
    kind = chance.choice(("plain", "unlocked", "serial", "uneven"))
    hot = chance.choice((1.5, 2.0, 3.0)) / processes
    is_uneven = kind == "uneven" and hot < 1
    shares = (hot, *[(1 - hot) / (processes - 1)] * (processes - 1)) if is_uneven else ()
    work = Work(
        locked=computing,
        unlocked=computing * chance.choice((0.5, 1.0)) if kind == "unlocked" else 0.0,
        waiting=computing * chance.choice((0.0, 0.5, 1.0, 3.0, 10.0, 30.0)),
        serial=computing * chance.choice((0.2, 0.5, 1.0, 2.0)) if kind == "serial" else 0.0,
        serial_is_shared=chance.random() < 0.5,
        factors=_EXPONENTIAL,
    )
    return System(processes=processes, threads=threads, cpus=chance.choice((1, 2, 4, 8, 16)), shares=shares), work


def compare(system: System, work: Work, requests: int) -> dict[str, float]:
    """The relative errors of the most throughput, and of the mean times in service and with the listen queue."""
    model = Model(
        computing=work.locked,
        waiting=work.waiting,
        cpus=system.cpus,
        unlocked=work.unlocked,
        serial=work.serial,
        serial_is_shared=work.serial > 0 and work.serial_is_shared,
    )
    chain = flow_equivalent(model, system.processes, system.threads, system.shares)
    most = chain[-1][0]
    full = Simulation(system, work, 7).run(requests, warm_up=requests // 2).throughput
    errors = {"most throughput": most / full - 1}
    for load in LOADS:
        rate = load * min(full, most)
        truth, times = Simulation(system, work, 7).run(2 * requests, rate, warm_up=requests), find_times(chain, rate)
        errors[f"time in service at {load:.0%}"] = times.service / fmean(truth.service) - 1
        errors[f"time with queue at {load:.0%}"] = (times.service + times.queue_wait) / fmean(truth.total) - 1
    return errors


def summarize(errors: Iterable[Mapping[str, float]]) -> dict[str, tuple[float, float, float, float, float]]:
    """By figure: the bias, the median, the 95th percentile and the largest of the absolute errors, and the largest
    error upwards."""
    rows = list(errors)
    found = {}
    for name in rows[0]:
        signed = [row[name] for row in rows]
        size = [abs(error) for error in signed]
        found[name] = fmean(signed), median(size), quantiles(size, n=20)[-1], max(size), max(signed)
    return found


def main() -> None:
    count = int(sys.argv[1])
    chance = random.Random(51)
    print(f"{count} servers: bias, median, 95 %, largest error, largest error upwards")
    for name, figures in summarize(compare(*draw(chance), 3000) for _ in range(count)).items():
        print(f"{name:24}", *(f"{figure:+8.1%}" for figure in figures))


if __name__ == "__main__":
    main()
