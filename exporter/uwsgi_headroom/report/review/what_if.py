"""Section 8: what other settings of processes and threads would do, on the server that reaches a limit first."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import cast

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.analysis.what_if import (
    CannotPredictError,
    Measured,
    Observed,
    Prediction,
    Setting,
    find_floor,
    find_uneven_shares,
    predict_settings,
)
from uwsgi_headroom.report.columns import PERCENTILES, ServerData, mean
from uwsgi_headroom.report.review.sections import Absent, SettingRow, WhatIfReview
from uwsgi_headroom.report.review.windows import places_of

LOADS = (1.0, 1.5)
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
    agree = _agree_with_headroom(figures, found.today)
    rows = [_row(found.today, agree, is_today=True), *(_row(prediction, agree) for prediction in found.predictions)]
    return WhatIfReview(
        server=server.server,
        peak=measured.busiest.throughput,
        loads=LOADS,
        rows=tuple(rows),
        response_time_error=found.check.response_time_error,
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
    p95 = next(
        (mean(column[places]) for share, column in zip(PERCENTILES, server.percentiles, strict=False) if share == 0.95),
        None,
    )
    return Measured(
        setting=Setting(processes, max(1, round(threads / processes))),
        cpus=cpus.count,
        window=Observed(
            throughput=flow.throughput,
            response_time=flow.response_time,
            p95=p95,
            concurrency=flow.observed,
            offered_at_least=find_floor(figures.demand),
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


def _agree_with_headroom(figures: Figures, today: Prediction) -> Callable[[Prediction], float]:
    """What turns a predicted maximum into one that agrees with the rest of the report: today's is the load at peak
    times the headroom to its limit, and those of other settings with the same limit keep their ratio to it. The model's
    own differs by its error, and two maxima of one limit would be one too many."""
    factor = figures.headroom.by_limit.get(cast("Limit", today.limit))
    known = factor and (figures.flow.throughput or 0.0) * factor
    ratio_ = known / today.most_throughput if known and today.most_throughput else 1.0
    return lambda prediction: prediction.most_throughput * (ratio_ if prediction.limit == today.limit else 1.0)


def _row(prediction: Prediction, agree: Callable[[Prediction], float], *, is_today: bool = False) -> SettingRow:
    at = prediction.at
    return SettingRow(
        setting=str(prediction.setting),
        is_today=is_today,
        most_throughput=agree(prediction),
        limit=prediction.limit,
        response_times=tuple(load.response_time for load in at),
        sustained=tuple(load.sustained for load in at),
        memory=prediction.memory,
        fits=prediction.fits,
    )
