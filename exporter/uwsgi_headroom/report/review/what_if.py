"""Section 6: throughput and response time against concurrency, with asymptotic bounds and the scalability law.

Section 8: what other settings of processes and threads would do, on the server that reaches a limit first.
"""

from __future__ import annotations

from math import ceil, isfinite

import numpy as np

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.analysis.what_if import (
    CannotPredictError,
    Measured,
    Observed,
    Prediction,
    Setting,
    find_uneven_shares,
    predict_settings,
)
from uwsgi_headroom.report.model import PERCENTILES, Column, ServerData
from uwsgi_headroom.report.review.model import Absent, Curve, CurvePoint, Law, SettingRow, WhatIfReview
from uwsgi_headroom.report.review.peaks import use_of
from uwsgi_headroom.report.review.windows import mean, places_of
from uwsgi_headroom.report.statistics import Refusal
from uwsgi_headroom.report.statistics.curve import Bounds, asymptotic_bounds, base_response_time, throughput_curve
from uwsgi_headroom.report.statistics.usl import Estimate, Usl, fit_usl

SERVING: tuple[Limit, ...] = ("hottest_interpreter", "interpreters", "cpu")
"""The limits that serve requests, so that a request has a demand for them. Threads only hold requests."""

FEWEST_QUARTERS = 20
"""Fewest quarter hours with load for a curve."""


def review_curve(server: ServerData, figures: Figures) -> Curve | Absent:
    """The section about one server. figures: of its quarter hour that counts, which give its largest demand."""
    concurrency, throughput = server.busy, server.requests
    timed = throughput - np.nan_to_num(server.static)
    response_time: Column = np.divide(server.running, timed, out=np.full(len(timed), np.nan), where=timed > 0)
    loaded = int(((concurrency > 0) & (throughput > 0)).sum())
    if loaded < FEWEST_QUARTERS:
        return Absent(reason=f"{loaded} quarter hours had any load, and a curve needs {FEWEST_QUARTERS}.")
    found = throughput_curve(concurrency, throughput, response_time, server.covered)
    if not len(found.counts):
        return Absent(reason="How much of the quarter hours was sampled is unknown, so there is no curve.")
    base = base_response_time(concurrency, response_time, throughput)
    bottleneck, demand = largest_demand(figures)
    bounds = None if isinstance(base, Refusal) or not base > 0 else asymptotic_bounds(found.concurrency, base, demand)
    law = fit_usl(concurrency, throughput, server.covered)
    fitted = None if isinstance(law, Refusal) else law.throughput(found.concurrency)
    points = tuple(
        CurvePoint(
            concurrency=float(found.concurrency[place]),
            throughput=float(found.throughput[place]),
            throughput_low=float(found.throughput_low[place]),
            throughput_high=float(found.throughput_high[place]),
            response_time=_known(found.response_time, place),
            quarters=int(found.counts[place]),
            throughput_bound=_known(bounds.throughput, place) if bounds else None,
            response_time_bound=_known(bounds.response_time, place) if bounds else None,
            fitted=_known(fitted, place),
        )
        for place in range(len(found.counts))
    )
    return Curve(
        server=server.server,
        points=points,
        base_response_time=None if isinstance(base, Refusal) else base,
        bottleneck=bottleneck,
        largest_demand=demand,
        knee=_knee(bounds),
        law=Absent(reason=law.reason) if isinstance(law, Refusal) else _law(law),
    )


def largest_demand(figures: Figures) -> tuple[Limit | None, float | None]:
    """The limit with the largest demand, and that demand in seconds per request: utilization over throughput, by the
    utilization law."""
    rate = figures.flow.throughput
    uses = [(use, limit) for limit in SERVING if (use := use_of(figures, limit))]
    if not uses or not rate:
        return None, None
    use, limit = max(uses)
    return limit, use / rate


def _knee(bounds: Bounds | None) -> float | None:
    return bounds.knee if bounds is not None and isfinite(bounds.knee) else None


def _known(values: Column | None, place: int) -> float | None:
    return None if values is None or not isfinite(values[place]) else float(values[place])


def _law(law: Usl) -> Law:
    return Law(
        rate=_estimate(law.rate),
        contention=_estimate(law.contention),
        coherency=_estimate(law.coherency),
        error=law.error,
        explained=law.explained,
        peak=_estimate(law.peak_concurrency) if law.peak_concurrency else None,
        most_throughput=_estimate(law.most_throughput) if law.most_throughput else None,
        beyond_data=law.beyond_data,
        notes=law.notes,
    )


def _estimate(found: Estimate) -> tuple[float, float, float]:
    return float(found.value), float(found.low), float(found.high)


LOADS = (1.0, 1.5, 2.0)
"""Multiples of the load at peak."""

_LEAST_REQUESTS = 100


def review_what_if(server: ServerData, figures: Figures) -> WhatIfReview | Absent:
    """The section about one server, from its quarter hour that counts."""
    measured = measure(server, figures)
    if isinstance(measured, Absent):
        return measured
    try:
        found = predict_settings(measured, propose(measured.setting), LOADS)
    except CannotPredictError as error:
        return Absent(reason=str(error))
    rows = [_row(found.today, is_today=True), *(_row(prediction) for prediction in found.predictions)]
    return WhatIfReview(
        server=server.server,
        peak=(measured.peak or measured.window).throughput,
        loads=LOADS,
        rows=tuple(rows),
        response_time_error=found.check.response_time_error,
        p95_error=found.check.p95_error,
        demands_measured=found.demands_measured,
        cautions=found.cautions,
    )


def measure(server: ServerData, figures: Figures) -> Measured | Absent:
    """What is known about a server in a quarter hour, or why that is too little for a prediction."""
    processes, threads = len(server.by_worker), figures.configured
    flow, cpus = figures.flow, figures.server.cpus
    if not processes or not threads:
        return Absent(reason="The source has no figures of single workers, which a prediction needs.")
    if cpus is None or figures.cpu is None:
        return Absent(reason="The CPU use is unknown, which a prediction needs.")
    if flow.requests < _LEAST_REQUESTS or flow.throughput is None:
        return Absent(reason=f"Too few requests at peak for a prediction: {flow.requests} in the quarter hour.")
    places = places_of(server.time, [figures.window.until])
    percentiles = {share: mean(column[places]) for share, column in zip(PERCENTILES, server.percentiles, strict=False)}
    return Measured(
        setting=Setting(processes, max(1, round(threads / processes))),
        cpus=cpus.count,
        window=Observed(
            throughput=flow.throughput,
            response_time=flow.response_time,
            p50=percentiles.get(0.5),
            p95=percentiles.get(0.95),
            queue_wait=flow.queue_wait,
            concurrency=flow.observed,
        ),
        cpu_per_request=ratio(figures.cpu.own, flow.throughput),
        waits=figures.waits.per_request if figures.waits else None,
        workers_up=mean(server.workers_accepting[places]),
        others=figures.cpu.others or 0.0,
        memory_per_worker=mean(server.memory_per_worker[places]),
        memory_available=mean(server.memory_available[places]),
        memory_is_exact=False,
        shares=find_uneven_shares(figures.balance),
    )


def propose(today: Setting) -> tuple[Setting, ...]:
    """Settings to compare with the present one: the same threads in more processes, more processes, more threads."""
    processes, threads = today.processes, today.threads
    wanted = (
        (2 * processes, threads / 2),
        (4 * processes, threads / 4),
        (1.5 * processes, threads),
        (2 * processes, threads),
        (processes, 1.5 * threads),
        (processes, 2 * threads),
    )
    found = [Setting(ceil(each), ceil(of)) for each, of in wanted if of >= 1]
    return tuple(dict.fromkeys(setting for setting in found if setting != today))


def _row(prediction: Prediction, *, is_today: bool = False) -> SettingRow:
    at = prediction.at
    return SettingRow(
        setting=str(prediction.setting),
        is_today=is_today,
        most_throughput=prediction.most_throughput,
        limit=prediction.limit,
        response_times=tuple(load.response_time for load in at),
        p95=tuple(load.p95 for load in at),
        sustained=tuple(load.sustained for load in at),
        memory=prediction.memory,
        fits=prediction.fits,
    )
