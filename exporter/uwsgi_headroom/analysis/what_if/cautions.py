"""Names what a prediction cannot know of a server, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum

from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.repairman import Model
from uwsgi_headroom.analysis.what_if.measured import Measured, Setting
from uwsgi_headroom.record import State
from uwsgi_headroom.words.formats import amount, duration, percent

NETWORK: tuple[State, ...] = ("backend", "dns")

QUEUES: dict[State, str] = {"lock": "a lock of the application", "disk": "a disk", "child": "processes they start"}
"""What requests may queue for outside of the model."""

NOTABLE = 0.1
"""Part of the response time from which on a state deserves a sentence."""

FEW_REQUESTS = 200
FAR = 3.0
"""Predictions above this multiple of the observed throughput reach far beyond what was seen."""


def list_cautions(
    measured: Measured, model: Model, settings: Sequence[Setting], *, lock_wait: float | None, highest: float
) -> Iterator[str]:
    """The sentences that apply, most important first. lock_wait: seconds that a request waits for its interpreter by
    the model; None without wait states. highest: the largest load."""
    if measured.offered_at_least is not None:
        yield _about_demand(measured, measured.offered_at_least)
    if lock_wait is None:
        yield from _about_unknown_waits(measured, model)
    else:
        yield from _about_waits(measured)
        yield from _about_interpreters(measured, model, lock_wait)
    if measured.lock is not None:
        yield _about_lock(measured.lock)
    yield from _about_server(measured, settings)
    if measured.window.requests is not None and measured.window.requests < FEW_REQUESTS:
        yield f"Only {measured.window.requests} requests were observed, so what a request needs is uncertain."
    if highest > FAR * measured.window.throughput:
        yield (
            f"The predictions are for up to {highest:.4g} requests/s, but what a request needs was observed at only "
            f"{measured.window.throughput:.3g} requests/s."
        )


def _about_demand(measured: Measured, offered: float) -> str:
    at_once = f", with at least {offered:.0f} requests at once for {measured.setting.in_all} threads" if offered else ""
    return (
        f"uWSGI completed {amount(measured.busiest.throughput)} requests/s, but more may have arrived: all threads "
        f"were busy or a listen queue was full{at_once}. So it is not known how long requests would take in another "
        "setting, and no time is predicted. The predicted highest throughput is valid."
    )


def _about_unknown_waits(measured: Measured, model: Model) -> Iterator[str]:
    whole = measured.window.response_time or 0.0
    if model.waiting >= NOTABLE * whole:
        yield (
            f"What requests wait for is not measured: {percent(min(1.0, model.waiting / whole))} of the response time "
            "counts as waiting that no setting changes. If a backend is saturated, or requests wait for a lock, the "
            "predictions are too good."
        )


def _about_waits(measured: Measured) -> Iterator[str]:
    waits = measured.waits or {}
    total = fsum(waits.values())
    network = fsum(waits.get(state, 0.0) for state in NETWORK) / total
    if network >= NOTABLE:
        yield (
            f"Requests wait for backends for {percent(network)} of their time. The predictions hold if the backends "
            "answer as fast with more requests at once; whether a backend is saturated cannot be seen from here."
        )
    for state, what in QUEUES.items():
        share = waits.get(state, 0.0) / total
        if share >= NOTABLE and not (state == "lock" and measured.lock):
            yield (
                f"Requests wait for {what} for {percent(share)} of their time. In the model, this wait stays the same, "
                "but in fact it grows with the number of requests at once."
            )


def _about_interpreters(measured: Measured, model: Model, lock_wait: float) -> Iterator[str]:
    observed = (measured.waits or {}).get("interpreter_lock", 0.0)
    cpu = model.computing + model.unlocked
    if observed >= max(NOTABLE * (measured.window.response_time or 0.0), 2 * lock_wait):
        yield (
            f"A request waits {duration(observed)} for the interpreter lock, but only {duration(lock_wait)} in the "
            "model: something holds the lock without computing. Predictions with several threads are too good."
        )
    elif model.unlocked > NOTABLE * cpu:
        share = percent(model.unlocked / cpu)
        yield f"{share} of the CPU time counts as outside the interpreter lock, because few threads wait for it."


def _about_lock(lock: LockFigures) -> str:
    whose = "its process" if lock.scope == "worker" else "a file"
    raises = "only more processes raise" if lock.scope == "worker" else "neither threads nor processes raise"
    is_sure = lock.most_limit - lock.least_limit < NOTABLE * lock.limit
    limits = f"{lock.least_limit:.3g} and {lock.most_limit:.3g}"
    between = "" if is_sure else f" (between {limits}, because the lock is not read at every moment)"
    return (
        f"A mean request holds a lock of {whose} for {duration(lock.seconds)}, so the present setting serves at most "
        f"{lock.limit:.3g} requests/s{between}: {raises} this limit."
    )


def _about_server(measured: Measured, settings: Sequence[Setting]) -> Iterator[str]:
    if measured.shares:
        yield (
            f"One worker takes {percent(max(measured.shares))} of the requests. The prediction for the present "
            "setting has these shares; for every other setting, all workers take the same share."
        )
    if measured.cheaper:
        yield "Cheaper mode starts and stops workers. Each prediction is for all processes of the setting."
    if measured.mapped:
        yield (
            "Workers have sockets of their own (`map-socket`). The model has one listen queue, from which every worker "
            "takes requests."
        )
    if measured.setting.threads == 1 and any(setting.threads > 1 for setting in settings):
        yield "Settings with several threads need an application that is safe to run in several threads."
    if measured.others >= NOTABLE * measured.cpus:
        use = "need more CPU with more requests" if measured.others_follow else "need the same CPU"
        yield (
            f"Other programs use {measured.others:.1f} of {measured.cpus:g} CPUs. The predictions assume that "
            f"these programs {use}."
        )
