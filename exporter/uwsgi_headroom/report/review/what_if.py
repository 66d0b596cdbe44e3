"""Section 7: what other settings of processes and threads would do, on the server that reaches a limit first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import cast

from msgspec.structs import replace

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.sizing import MARGIN
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, Measured, Setting, measure_server
from uwsgi_headroom.analysis.what_if.predict import Prediction, predict_settings
from uwsgi_headroom.report.columns import PERCENTILES, ServerData, mean
from uwsgi_headroom.report.review.sections import Absent, Recommendation, SettingRow, WhatIfReview
from uwsgi_headroom.report.review.windows import places_of

LOADS = (1.0, 1.5)
"""Multiples of the load at peak."""

_LEAST_REQUESTS = 100
_P95 = PERCENTILES.index(0.95)


def review_what_if(
    server: ServerData, figures: Figures, advice: Sequence[Recommendation] = ()
) -> WhatIfReview | Absent:
    """The section about one server, from its quarter hour that counts. Advised settings are among the rows, with the
    numbers of the advice."""
    mine = [each for each in advice if each.setting and server.server in each.servers]
    wanted = [Setting(*map(int, each.setting.split("x"))) for each in mine]
    advised = {each.setting: each.serves for each in mine if each.serves}
    try:
        measured = measure(server, figures)
        found = predict_settings(measured, tuple(dict.fromkeys([*wanted, *propose(measured.setting)])), LOADS)
    except CannotPredictError as error:
        return Absent(reason=str(error))
    others = [_row(figures, prediction, found.today, advised) for prediction in found.predictions]
    return WhatIfReview(
        server=server.server,
        peak=measured.busiest.throughput,
        loads=LOADS,
        rows=(_today(figures, found.today), *others),
        response_time_error=found.check.response_time_error,
        demands_measured=found.demands_measured,
        cautions=found.cautions,
    )


def today_of(figures: Figures) -> Setting:
    """The present setting of a server with workers."""
    processes = len(figures.server.workers)
    return Setting(processes, max(1, round((figures.configured or 0) / max(1, processes))))


def measure(server: ServerData, figures: Figures) -> Measured:
    """What is known about a server in a quarter hour, as in `check`. Raises CannotPredictError if it is too little."""
    if not server.by_worker:
        raise CannotPredictError("The source has no figures of single workers, which a prediction needs.")
    if figures.flow.requests < _LEAST_REQUESTS:
        few = f"{figures.flow.requests} in the quarter hour"
        raise CannotPredictError(f"Too few requests at peak for a prediction: {few}.")
    measured = measure_server(figures)
    place = places_of(server.time, [figures.window.until])
    p95 = mean(server.percentiles[_P95][place]) if len(server.percentiles) > _P95 else None
    return replace(measured, window=replace(measured.window, p95=p95))


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


def _serve(figures: Figures, prediction: Prediction, today: Prediction) -> float:
    """Requests per second that a setting serves at least: those of the model, less what it promises too much. What is
    predicted to be the limit today has one maximum in a report, so the model is scaled to the headroom of that limit;
    and a setting that serves no less than today's by the model does so here."""
    now, model = figures.flow.throughput or 0.0, prediction.most_throughput
    known = figures.headroom.by_limit.get(cast("Limit", today.limit))
    if known and prediction.limit == today.limit and today.most_throughput:
        model *= now * known / today.most_throughput
    return min(model, max(MARGIN * model, now * (figures.headroom.factor or 0.0)))


def _row(figures: Figures, prediction: Prediction, today: Prediction, advised: Mapping[str, float]) -> SettingRow:
    setting = str(prediction.setting)
    return SettingRow(
        setting=setting,
        is_today=False,
        most_throughput=advised.get(setting) or _serve(figures, prediction, today),
        limit=prediction.limit,
        response_times=tuple(load.response_time for load in prediction.at),
        sustained=tuple(load.sustained for load in prediction.at),
        memory=prediction.memory,
        fits=prediction.fits,
    )


def _today(figures: Figures, today: Prediction) -> SettingRow:
    """The row of the present setting: what was measured, where it was."""
    row, room, flow = _row(figures, today, today, {}), figures.headroom, figures.flow
    if room.factor and room.first and flow.throughput:
        row = replace(row, most_throughput=flow.throughput * room.factor, limit=room.first)
    return replace(row, is_today=True, response_times=(flow.response_time, *row.response_times[1:]))
