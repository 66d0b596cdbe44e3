"""Predicts other settings of a watched server from its history, in a thread, and builds the document."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from uwsgi_headroom.analysis.demand import compute_demand
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.analysis.what_if.measured import (
    CannotPredictError,
    Measured,
    Observed,
    Setting,
    choose_settings,
    describe_flow,
    measure_server,
)
from uwsgi_headroom.analysis.what_if.predict import WhatIf, predict_settings
from uwsgi_headroom.clock import Clock
from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import ServerRecord
from uwsgi_headroom.stats import Snapshot
from uwsgi_headroom.watch.turns import HISTORY_TURN_SECONDS, Turns, run_in_thread
from uwsgi_headroom.watch.watch import Watch

PEAK_SECONDS = 60.0
"""Length of the slices of the last hour, of which the one with the most requests is the peak."""


async def predict_what_if(watch: Watch, clock: Clock, seconds: float, settings: Sequence[Setting] = ()) -> WhatIf:
    """Predict settings, or those around the observed one, from the last `seconds` of a server, or say why not."""
    try:
        covered, measured = await _measure(watch, seconds)
        wanted = settings or choose_settings(measured.setting, measured.cpus)
        result = await run_in_thread(lambda _turns: predict_settings(measured, wanted))
    except CannotPredictError as error:
        return WhatIf(name=watch.name, time=clock.epoch(), refusal=str(error))
    return replace(result, name=watch.name, time=clock.epoch(), seconds=covered)


async def _measure(watch: Watch, seconds: float) -> tuple[float, Measured]:
    """The length of the window, and what was measured in it. Raises CannotPredictError."""
    reading = watch.reading
    if reading is None or watch.state != "up":
        raise CannotPredictError("The server cannot be read now.")
    if not isinstance(reading.snapshot, Snapshot):
        raise CannotPredictError(f"This is a uWSGI {reading.snapshot.kind}: it serves no requests itself.")
    figures = next(iter(watch.figures(reading, (seconds,))), None)
    if figures is None:
        raise CannotPredictError("There is no history yet: figures need two readings, a second apart.")
    peak = await _find_peak(watch, figures.server)
    if peak is not None and peak.throughput <= (figures.flow.throughput or 0.0):
        peak = None
    return figures.window.seconds, measure_server(figures, peak=peak)


async def _find_peak(watch: Watch, server: ServerRecord) -> Observed | None:
    """The busiest minute of the last hour; None without a whole minute of history."""
    busiest: tuple[float, Window] | None = None
    turns = Turns(longest=HISTORY_TURN_SECONDS)
    now = watch.reading.at if watch.reading else 0.0
    for window in watch.history.slices(PEAK_SECONDS, now - HISTORY_SECONDS, now):
        throughput = compute_flow(window).throughput or 0.0
        is_covered = window.observed_seconds >= window.seconds / 2
        if is_covered and throughput > (busiest[0] if busiest else 0.0):
            busiest = throughput, window
        await turns.pause_if_due()
    if busiest is None:
        return None
    window = busiest[1]
    flow = compute_flow(window)
    demand = compute_demand(window, server, flow, window.available)
    return describe_flow(flow, compute_percentiles(watch.response_times(window)), demand)
