"""Predicts settings of a real uWSGI from one that is observed, measures them, and prints both, misses included.

`python3 -m tools.bench.model` takes about 11 minutes. The exit status is 0 whatever was measured.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace

import psutil

from tools.bench import table
from tools.bench.clients import CPUS, Plan
from tools.bench.model import judge
from tools.bench.model.cases import LOADS, OBSERVED, WORKLOADS, Workload
from tools.bench.model.run import Truth, measure
from uwsgi_headroom.analysis.what_if import Measured, Prediction, Setting
from uwsgi_headroom.analysis.what_if.predict import calibrate, predict_setting

OBSERVE_SECONDS = 30.0
QUIET = 0.2
"""CPUs that programs other than the clients may use; a run beside more is repeated once."""

WAIT_SECONDS, BUSY_PERCENT = 10.0, 15.0
"""How long to wait for the machine before a run, and until it is less busy than this."""

RETRY_MINUTES = 9.0
"""Afterwards nothing is repeated."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.bench.model", description=__doc__)
    parser.add_argument("--seconds", type=float, default=14, help="length of each run (default %(default)g)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only requests whose name contains this text")
    options = parser.parse_args()
    bench = _Bench(options.seconds)
    for workload in WORKLOADS:
        if options.only in workload.name:
            bench.run(workload)
    print(bench.report())


class _Bench:
    def __init__(self, seconds: float) -> None:
        self._seconds, self._began = seconds, time.monotonic()
        self._rows: list[judge.Row] = []
        self._observed: list[str] = []
        self._clients = 0.0
        self._repeated = 0

    def run(self, workload: Workload) -> None:
        truth, measured = self._measure(OBSERVED, _plan(workload, workload.rate), OBSERVE_SECONDS)
        self._observed.append(_describe(workload, truth, measured))
        print(self._observed[-1], flush=True)
        for setting in workload.settings:
            most = self._add(workload, measured, setting, None, Plan((), workload.kinds, clients=setting.in_all + 6))
            for load in LOADS:
                self._add(workload, measured, setting, load, _plan(workload, load * most))

    def _add(self, workload: Workload, measured: Measured, setting: Setting, load: float | None, plan: Plan) -> float:
        truth, _ = self._measure(setting, plan, self._seconds)
        row = judge.Row(workload.name.partition(":")[0], setting, load, truth, _predict(measured, setting, truth))
        self._rows.append(row)
        print(judge.table([row]).splitlines()[-1], flush=True)
        return truth.throughput

    def _measure(self, setting: Setting, plan: Plan, seconds: float) -> tuple[Truth, Measured]:
        """Measure; once more if other programs disturbed that, and return the quieter of the two."""
        _wait_until_quiet()
        first = measure(setting, plan, seconds)
        self._clients = max(self._clients, first[0].clients)
        is_late = time.monotonic() - self._began > 60 * RETRY_MINUTES
        if first[0].other_programs - first[0].clients <= QUIET or is_late:
            return first
        self._repeated += 1
        _wait_until_quiet()
        return min(first, measure(setting, plan, seconds), key=lambda result: result[0].other_programs)

    def report(self) -> str:
        return "\n\n".join(
            [
                judge.table(self._rows),
                judge.summary(self._rows),
                "Observed: " + " ".join(self._observed),
                f"uWSGI, its clients and the exporter share CPUs {CPUS}; the clients used at most {self._clients:.2f} "
                "of a CPU. Other programs are all but uWSGI, and a prediction takes them as they were in its run. "
                f"{self._repeated} runs were repeated, because other programs used more than {QUIET:g} CPUs.",
                f"{self._seconds:g} s per run, {(time.monotonic() - self._began) / 60:.1f} min; load average at the "
                f"end {table.load_average()}. {table.machine()}",
            ]
        )


def _plan(workload: Workload, rate: float) -> Plan:
    return Plan((), workload.kinds, steps=((rate, math.inf),))


def _wait_until_quiet() -> None:
    """Wait until other programs use little of the CPUs, for a while at most."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end and psutil.cpu_percent(interval=1.0) > BUSY_PERCENT:
        pass


def _predict(measured: Measured, setting: Setting, truth: Truth) -> Prediction:
    """The prediction from the observed setting, beside the other programs of the run that it is compared with."""
    server = replace(calibrate(measured), others=truth.other_programs, others_per_request=0.0)
    return predict_setting(server, setting, (truth.throughput / measured.window.throughput,))


def _describe(workload: Workload, truth: Truth, measured: Measured) -> str:
    window = measured.window
    p95 = "unknown" if window.p95 is None else f"{1e3 * window.p95:.0f} ms"
    return (
        f"{workload.name}, in {OBSERVED} at {window.throughput:.1f} requests/s: response time "
        f"{1e3 * (window.response_time or 0):.0f} ms, 95th percentile {p95} ({1e3 * truth.service_p95:.0f} ms by the "
        f"log), CPU {1e3 * (measured.cpu_per_request or 0):.1f} ms."
    )


if __name__ == "__main__":
    main()
