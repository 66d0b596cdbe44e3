"""Predicts settings of a real uWSGI from one that is observed, measures them, and prints both, misses included.

`python3 -m tools.bench.model` takes about 11 minutes. The exit status is always 0. uWSGI, its clients and
the exporter share two CPUs; a prediction takes the other programs as they were in the run that it is compared with.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from tools.bench import table
from tools.bench.clients import Kind, Plan, finish, prefix, running
from tools.bench.exporters import serving, watch
from tools.environments import ROOT
from uwsgi_headroom.analysis.what_if.measured import Measured, Setting, measure_server, parse_setting
from uwsgi_headroom.analysis.what_if.predict import PredictedSetting, calibrate, predict_setting

OBSERVE_SECONDS, WARM_UP_SECONDS = 30.0, 2.0

OBSERVED = parse_setting("4x4")
"""The one setting that is observed, for each workload."""

LOADS = (0.5, 0.8)
"""As parts of the most throughput that was measured for the setting."""

THROUGHPUT, RESPONSE_TIME = 0.15, 0.25
"""Tolerances, as parts of what was measured."""


@dataclass(frozen=True)
class Workload:
    """Requests of the demo application, the rate at which OBSERVED is watched, and the predicted settings."""

    name: str
    kinds: tuple[Kind, ...]
    rate: float
    settings: tuple[Setting, ...]


WORKLOADS = (
    Workload(
        "mix: 60 % /mixed (12 ms of CPU, 120 ms of waiting), 20 % computing (30 ms), 20 % /slow (200 ms)",
        (
            Kind(0.6, "/mixed?cpu_ms={cpu}&io_ms={io}", cpu=12, io=120, spread=0.8),
            Kind(0.2, "/mixed?cpu_ms={cpu}", cpu=30, spread=0.5),
            Kind(0.2, "/slow?s={s}", io=200, spread=0.8),
        ),
        54,
        tuple(map(parse_setting, ("1x8", "1x16", "2x8", "8x2", "8x1", "16x1", "4x1", "2x2"))),
    ),
    Workload(
        "/fib: computing only, for about 10, 25 or 45 ms",
        (Kind(0.6, "/fib/24"), Kind(0.25, "/fib/26"), Kind(0.15, "/fib/27")),
        40,
        (parse_setting("1x8"),),
    ),
    Workload(
        "/slow: waiting only, from 30 to 270 ms",
        (Kind(1, "/slow?s={s}", io=150, spread=0.8),),
        50,
        (parse_setting("8x1"),),
    ),
)


@dataclass(frozen=True)
class Truth:
    """What uWSGI's own log and the clients say of the completed requests: throughput in requests per second; service,
    total: mean seconds in service, and from connecting to the end of the response. other_programs: CPUs that all
    programs but uWSGI used, the clients among them."""

    throughput: float
    service: float
    total: float
    other_programs: float


@dataclass(frozen=True)
class Row:
    """A setting at its most throughput (load None) or at a part of it, measured and predicted."""

    workload: str
    setting: Setting
    load: float | None
    truth: Truth
    predicted: PredictedSetting

    def __str__(self) -> str:
        """The row of the table. A load that is not sustained has no time, and is a miss."""
        most = service = total = ""
        if self.load is None:
            most = table.compare(self.predicted.most_throughput, self.truth.throughput, THROUGHPUT)
        else:
            (at,) = self.predicted.loads
            service = table.compare(at.response_time, self.truth.service, RESPONSE_TIME, 1e3)
            total = table.compare(at.total_time, self.truth.total, RESPONSE_TIME, 1e3)
        load = "most" if self.load is None else f"{self.load:.0%}"
        others = f"{self.truth.other_programs:.2f}"
        return " | ".join([self.workload, str(self.setting), load, others, most, service, total])


def report(rows: Sequence[Row]) -> str:
    head = "requests | setting | load | other programs, CPUs | most, requests/s | time in service, ms | with queue, ms"
    texts = list(map(str, rows))
    return f"{table.render_table(head, texts)}\n\n{table.count_right(texts)}"


def main() -> None:
    options = table.parse_options("model", __doc__, 14)
    rows: list[Row] = []
    for workload in WORKLOADS:
        if options.only in workload.name:
            rows += _run(workload, options.seconds)
    print(f"\n{report(rows)}\n\n{table.machine()}")


def _run(workload: Workload, seconds: float) -> list[Row]:
    """Observes one setting, then measures and predicts the others: the most throughput, and the loads."""
    _, measured = measure(OBSERVED, _steady(workload, workload.rate), OBSERVE_SECONDS)
    print(f"{workload.name}, in {OBSERVED} at {measured.window.throughput:.1f} requests/s", flush=True)
    rows: list[Row] = []

    def add(setting: Setting, load: float | None, plan: Plan) -> Truth:
        truth, _ = measure(setting, plan, seconds)
        rows.append(Row(workload.name.partition(":")[0], setting, load, truth, _predict(measured, setting, truth)))
        print(rows[-1], flush=True)
        return truth

    for setting in workload.settings:
        most = add(setting, None, Plan((), workload.kinds, clients=setting.in_all + 6)).throughput
        for load in LOADS:
            add(setting, load, _steady(workload, load * most))
    return rows


def _steady(workload: Workload, rate: float) -> Plan:
    return Plan((), workload.kinds, steps=((rate, math.inf),))


def _predict(measured: Measured, setting: Setting, truth: Truth) -> PredictedSetting:
    server = structs.replace(calibrate(measured), others=truth.other_programs, others_per_request=0.0)
    return predict_setting(server, setting, (truth.throughput / measured.window.throughput,))


def measure(setting: Setting, plan: Plan, seconds: float) -> tuple[Truth, Measured]:
    """Runs a load for some seconds after a warm-up: the truth, and what the analysis sees. plan: without the server's
    socket."""
    options = ["--module", "app.api:app", "--pythonpath", str(ROOT), "--http-socket", "{directory}/web"]
    options += ["--req-logger", "file:{directory}/requests", "--logformat", "%(micros)"]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serving(setting.processes, setting.threads, *options))
        load = stack.enter_context(running(replace(plan, sockets=((str(server.directory / "web"), 1.0),)), prefix()))
        time.sleep(WARM_UP_SECONDS)
        log = server.directory / "requests"
        start, began = log.stat().st_size, time.monotonic()
        (figures,) = asyncio.run(watch([server.stats], seconds))
        end = time.monotonic()
        times = [int(line) / 1e6 for line in log.read_bytes()[start:].split() if line.isdigit()]
        seen = finish(load)
    totals = [answer.ended - answer.began for answer in seen.answers if began <= answer.ended <= end]
    others = (figures.cpu.others or 0.0) if figures.cpu else 0.0
    truth = Truth(len(times) / (end - began), sum(times) / len(times), sum(totals) / len(totals), others)
    return truth, measure_server(figures)


if __name__ == "__main__":
    main()
