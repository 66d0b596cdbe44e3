"""Predicts settings from one that was observed, and compares the model with what was observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uwsgi_headroom.analysis.what_if.cautions import list_cautions
from uwsgi_headroom.analysis.what_if.demands import Calibrated, calibrate
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, Measured
from uwsgi_headroom.analysis.what_if.prediction import Check, Prediction, WhatIf
from uwsgi_headroom.analysis.what_if.runs import (
    describe_load,
    find_most,
    mean,
    name_limit,
    run_observed,
    was_full,
)
from uwsgi_headroom.analysis.what_if.setting import Setting
from uwsgi_headroom.nearest_rank import percentile


def predict_settings(
    measured: Measured,
    settings: Sequence[Setting],
    loads: Sequence[float] = (1.0, 1.5),
    cancelled: Callable[[], bool] = lambda: False,
) -> WhatIf:
    """Predict these settings at these multiples of the peak load. The same input gives the same output.

    cancelled: asked now and then; once it is true, CannotPredictError ends the work. Raises CannotPredictError also if
    the measurements do not support a prediction.
    """

    def look() -> None:
        if cancelled():
            raise CannotPredictError("The prediction was cancelled.")

    calibrated = calibrate(measured, look)
    peak = measured.peak or measured.window
    rates = [load * peak.throughput for load in loads]
    wanted = dict.fromkeys((measured.setting, *settings))
    predicted = {setting: predict_setting(measured, calibrated, setting, loads, rates) for setting in wanted}
    return WhatIf(
        measured=measured,
        today=predicted[measured.setting],
        check=_check(measured, calibrated),
        predictions=tuple(predicted[setting] for setting in settings),
        demands_measured=calibrated.from_waits,
        cautions=list_cautions(measured, calibrated, settings, rates),
    )


def predict_setting(
    measured: Measured, calibrated: Calibrated, setting: Setting, loads: Sequence[float], rates: Sequence[float]
) -> Prediction:
    """Predict one setting at these loads, which are `rates` requests per second."""
    most, use = find_most(calibrated.server, setting)
    memory, fits = _memory(measured, setting)
    return Prediction(
        setting=setting,
        most_throughput=most,
        limit=name_limit(use),
        at=tuple(
            describe_load(
                calibrated.server,
                setting,
                load=load,
                rate=rate,
                most=most,
                most_use=use,
                percentiles=calibrated.from_percentiles,
            )
            for load, rate in zip(loads, rates, strict=True)
        ),
        memory=memory,
        fits=fits,
    )


def _memory(measured: Measured, setting: Setting) -> tuple[float | None, bool | None]:
    """The memory of all workers in bytes, and whether they fit; with an upper bound for a worker, they may fit although
    the bound does not."""
    each, available = measured.memory_per_worker, measured.memory_available
    if each is None:
        return None, None
    more = setting.processes - measured.running.processes
    fits = None if available is None else more * each <= available or more <= 0
    return setting.processes * each, None if fits is False and not measured.memory_is_exact else fits


def _check(measured: Measured, calibrated: Calibrated) -> Check:
    """The model of the observed setting at the observed load: at the peak if its response time is known."""
    peak = measured.peak
    is_peak = peak is not None and peak.response_time is not None
    observed = peak if peak is not None and is_peak else measured.window
    server, setting = calibrated.server, measured.running
    outcome = run_observed(server, setting, observed)
    most, _ = find_most(server, setting)
    times = mean(outcome.service)
    p95 = percentile(sorted(outcome.service), 0.95) if calibrated.from_percentiles else None
    full = was_full(setting, observed)
    return Check(
        observed=observed,
        throughput=most if full else min(most, observed.throughput),
        response_time=times,
        p95=p95,
        throughput_error=_error(most, observed.throughput) if full or most < observed.throughput else None,
        response_time_error=_error(times, observed.response_time) if is_peak or calibrated.from_waits else None,
        p95_error=_error(p95, observed.p95) if is_peak else None,
    )


def _error(predicted: float | None, observed: float | None) -> float | None:
    return predicted / observed - 1 if predicted is not None and observed else None
