"""Predicts settings from one that was observed, compares the model with what was observed, and names what it cannot
know of the server: the cautions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import fsum

from uwsgi_headroom.analysis.what_if.demands import Calibrated, calibrate
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, Measured
from uwsgi_headroom.analysis.what_if.runs import (
    Check,
    Prediction,
    WhatIf,
    describe_load,
    find_most,
    mean,
    name_limit,
    run_observed,
    was_full,
)
from uwsgi_headroom.analysis.what_if.setting import Setting
from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.record import State
from uwsgi_headroom.words.formats import amount, duration, percent


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
                is_floor=measured.offered_at_least is not None,
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


NETWORK: tuple[State, ...] = ("backend", "dns")

QUEUES: dict[State, str] = {"lock": "a lock of the application", "disk": "a disk", "child": "processes they start"}
"""What requests may queue for outside of the model."""

NOTABLE = 0.1
"""Part of the response time from which on a state deserves a sentence."""

FEW_REQUESTS = 200
FAR = 3.0
"""Predictions above this multiple of the observed throughput reach far beyond what was seen."""


def list_cautions(
    measured: Measured, calibrated: Calibrated, settings: Sequence[Setting], rates: Iterable[float]
) -> tuple[str, ...]:
    """The sentences that apply, most important first."""
    found = [
        *_about_demand(measured),
        *_about_waits(measured, calibrated),
        *_about_lock(measured, calibrated),
        *_about_lock_of_application(measured),
        *_about_server(measured, settings),
        *_about_observation(measured, max(rates, default=0.0)),
    ]
    return tuple(found)


def _about_demand(measured: Measured) -> list[str]:
    offered = measured.offered_at_least
    if offered is None:
        return []
    completed = amount((measured.peak or measured.window).throughput)
    at_once = f", with at least {offered:.0f} requests at once for {measured.setting.in_all} threads" if offered else ""
    return [
        f"uWSGI completed {completed} requests/s, but more may have arrived: all threads were busy or a listen queue "
        f"was full{at_once}. So it is not known how long requests would take in another setting, and no time is "
        "predicted. The predicted highest throughput is valid."
    ]


def _about_waits(measured: Measured, calibrated: Calibrated) -> list[str]:
    waits = measured.waits
    if not calibrated.from_waits or waits is None:
        waiting, whole = calibrated.server.work.waiting, measured.window.response_time
        if not whole or waiting < NOTABLE * whole:
            return []
        return [
            f"What requests wait for is not measured: {percent(min(1.0, waiting / whole))} of the response time counts "
            "as waiting that no setting changes. If a backend is saturated, or requests wait for a lock, the "
            "predictions are too good."
        ]
    total = fsum(waits.values())
    network = fsum(waits.get(state, 0.0) for state in NETWORK) / total
    found = []
    if network >= NOTABLE:
        found.append(
            f"Requests wait for backends for {percent(network)} of their time. The predictions hold if the backends "
            "answer as fast with more requests at once; whether a backend is saturated cannot be seen from here."
        )
    for state, what in QUEUES.items():
        share = waits.get(state, 0.0) / total
        if share >= NOTABLE and not (state == "lock" and measured.lock):
            found.append(
                f"Requests wait for {what} for {percent(share)} of their time. In the model, this wait stays the same, "
                "but in fact it grows with the number of requests at once."
            )
    return found


def _about_lock(measured: Measured, calibrated: Calibrated) -> list[str]:
    waits, whole = measured.waits, measured.window.response_time
    if not calibrated.from_waits or waits is None or not whole:
        return []
    observed = waits.get("interpreter_lock", 0.0)
    if observed >= NOTABLE * whole and observed >= 2 * calibrated.lock_wait:
        return [
            f"A request waits {duration(observed)} for the interpreter lock, but only {duration(calibrated.lock_wait)} "
            "in the model: something holds the lock without computing. Predictions with several threads are too good."
        ]
    work = calibrated.server.work
    if work.unlocked > NOTABLE * (work.locked + work.unlocked):
        share = percent(work.unlocked / (work.locked + work.unlocked))
        return [f"{share} of the CPU time counts as outside the interpreter lock, because few threads wait for it."]
    return []


def _about_lock_of_application(measured: Measured) -> list[str]:
    lock = measured.lock
    if lock is None:
        return []
    whose = "its process" if lock.scope == "worker" else "a file"
    raises = "only more processes raise" if lock.scope == "worker" else "neither threads nor processes raise"
    between = (
        ""
        if lock.most_limit - lock.least_limit < NOTABLE * lock.limit
        else (
            f" (between {lock.least_limit:.3g} and {lock.most_limit:.3g}, because the lock is not read at every moment)"
        )
    )
    return [
        f"A mean request holds a lock of {whose} for {duration(lock.seconds)}, so the present setting serves at most "
        f"{lock.limit:.3g} requests/s{between}: {raises} this limit."
    ]


def _about_server(measured: Measured, settings: Sequence[Setting]) -> list[str]:
    found = []
    if measured.shares:
        found.append(
            f"One worker takes {percent(max(measured.shares))} of the requests. The prediction for the present "
            "setting has these shares; for every other setting, all workers take the same share."
        )
    if measured.cheaper:
        found.append("Cheaper mode starts and stops workers. Each prediction is for all processes of the setting.")
    if measured.mapped:
        found.append(
            "Workers have sockets of their own (`map-socket`). The model has one listen queue, from which every worker "
            "takes requests."
        )
    if measured.setting.threads == 1 and any(setting.threads > 1 for setting in settings):
        found.append("Settings with several threads need an application that is safe to run in several threads.")
    if measured.others >= NOTABLE * measured.cpus:
        use = "need more CPU with more requests" if measured.others_follow else "need the same CPU"
        found.append(
            f"Other programs use {measured.others:.1f} of {measured.cpus:g} CPUs. The predictions assume that "
            f"these programs {use}."
        )
    return found


def _about_observation(measured: Measured, highest: float) -> list[str]:
    found = []
    if measured.window.requests is not None and measured.window.requests < FEW_REQUESTS:
        found.append(f"Only {measured.window.requests} requests were observed, so what a request needs is uncertain.")
    if highest > FAR * measured.window.throughput:
        found.append(
            f"The predictions are for up to {highest:.4g} requests/s, but what a request needs was observed at only "
            f"{measured.window.throughput:.3g} requests/s."
        )
    return found
