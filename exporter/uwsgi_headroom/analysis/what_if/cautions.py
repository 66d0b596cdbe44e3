"""Names what a prediction cannot know of a server, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum

from uwsgi_headroom.analysis.repairman import Model
from uwsgi_headroom.analysis.what_if.measured import Measured, Setting
from uwsgi_headroom.record import State
from uwsgi_headroom.words.template import Facts, fill

NETWORK: tuple[State, ...] = ("backend", "dns")

QUEUES: dict[State, str] = {"lock": "a lock of the application", "disk": "a disk", "child": "processes they start"}
"""What requests may queue for outside of the model."""

NOTABLE = 0.1
"""Part of the response time from which on a state deserves a sentence."""

FEW_REQUESTS = 200
FAR = 3.0
"""Predictions above this multiple of the observed throughput reach far beyond what was seen."""

DEMAND = (
    "uWSGI completed {done:amount} requests/s, but more may have arrived: all threads were busy or a listen queue was "
    "full[offered? , with at least {offered} requests at once for {threads} threads]. So it is not known how long "
    "requests would take in another setting, and no time is predicted. The predicted highest throughput is valid."
)
UNKNOWN_WAITS = (
    "What requests wait for is not measured: {share:percent} of the response time counts as waiting that no setting "
    "changes. If a backend is saturated, or requests wait for a lock, the predictions are too good."
)
BACKENDS = (
    "Requests wait for backends for {share:percent} of their time. The predictions hold if the backends answer as fast "
    "with more requests at once; whether a backend is saturated cannot be seen from here."
)
QUEUED = (
    "Requests wait for {what} for {share:percent} of their time. In the model, this wait stays the same, but in fact "
    "it grows with the number of requests at once."
)
LOCK_KEPT = (
    "A request waits {observed:duration} for the interpreter lock, but only {wait:duration} in the model: something "
    "holds the lock without computing. Predictions with several threads are too good."
)
UNLOCKED = "{share:percent} of the CPU time counts as outside the interpreter lock, because few threads wait for it."
LOCK = (
    "A mean request holds a lock of [file? a file][not file? its process] for {seconds:duration}, so the present "
    "setting serves at most {limit} requests/s[least?  (between {least} and {most}, because the lock is not read at "
    "every moment)]: [file? neither threads nor processes raise][not file? only more processes raise] this limit."
)
UNEVEN = (
    "One worker takes {share:percent} of the requests. The prediction for the present setting has these shares; for "
    "every other setting, all workers take the same share."
)
CHEAPER = "Cheaper mode starts and stops workers. Each prediction is for all processes of the setting."
MAPPED = "Workers have sockets of their own (`map-socket`). The model has one listen queue for all."
SAFE = "Settings with several threads need an application that is safe to run in several threads."
OTHERS = (
    "Other programs use {used} of {cpus} CPUs. The predictions assume that these programs need "
    "[follow? more CPU with more requests][not follow? the same CPU]."
)
FEW = "Only {requests:plain} requests were observed, so what a request needs is uncertain."
FAR_BEYOND = (
    "The predictions are for up to {highest} requests/s, but what a request needs was observed at only {seen} "
    "requests/s."
)


def list_cautions(
    measured: Measured, model: Model, settings: Sequence[Setting], *, lock_wait: float | None, highest: float
) -> Iterator[str]:
    """The sentences that apply, most important first. lock_wait: of a request, by the model; highest: load."""
    seen, whole, offered = measured.window, measured.window.response_time or 0.0, measured.offered_at_least
    if offered is not None:
        done, threads = measured.busiest.throughput, measured.setting.in_all
        yield fill(DEMAND, {"done": done, "offered": offered > 0 and f"{offered:.0f}", "threads": f"{threads}"})
    if lock_wait is not None:
        yield from _list_waits(measured, model, lock_wait)
    elif model.waiting >= NOTABLE * whole:
        yield fill(UNKNOWN_WAITS, {"share": min(1.0, model.waiting / whole)})
    yield from _list_setup(measured, settings)
    if seen.requests is not None and seen.requests < FEW_REQUESTS:
        yield fill(FEW, {"requests": seen.requests})
    if highest > FAR * seen.throughput:
        yield fill(FAR_BEYOND, {"highest": f"{highest:.4g}", "seen": f"{seen.throughput:.3g}"})


def _list_waits(measured: Measured, model: Model, lock_wait: float) -> Iterator[str]:
    waits = measured.waits or {}
    total, cpu = fsum(waits.values()), model.computing + model.unlocked
    network = fsum(waits.get(state, 0.0) for state in NETWORK) / total
    if network >= NOTABLE:
        yield fill(BACKENDS, {"share": network})
    for state, what in QUEUES.items():
        share = waits.get(state, 0.0) / total
        if share >= NOTABLE and not (state == "lock" and measured.lock):
            yield fill(QUEUED, {"what": what, "share": share})
    observed = waits.get("interpreter_lock", 0.0)
    if observed >= max(NOTABLE * (measured.window.response_time or 0.0), 2 * lock_wait):
        yield fill(LOCK_KEPT, {"observed": observed, "wait": lock_wait})
    elif model.unlocked > NOTABLE * cpu:
        yield fill(UNLOCKED, {"share": model.unlocked / cpu})


def _list_setup(measured: Measured, settings: Sequence[Setting]) -> Iterator[str]:
    if lock := measured.lock:
        least, most = f"{lock.least_limit:.3g}", f"{lock.most_limit:.3g}"
        is_sure = lock.most_limit - lock.least_limit < NOTABLE * lock.limit
        known: Facts = {"file": lock.scope == "file", "seconds": lock.seconds, "limit": f"{lock.limit:.3g}"}
        yield fill(LOCK, known | {"least": not is_sure and least, "most": most})
    if measured.shares:
        yield fill(UNEVEN, {"share": max(measured.shares)})
    is_threaded = measured.setting.threads == 1 and any(setting.threads > 1 for setting in settings)
    rows = (CHEAPER, measured.cheaper), (MAPPED, measured.mapped), (SAFE, is_threaded)
    yield from (text for text, holds in rows if holds)
    if measured.others >= NOTABLE * measured.cpus:
        used, cpus = f"{measured.others:.1f}", f"{measured.cpus:g}"
        yield fill(OTHERS, {"used": used, "cpus": cpus, "follow": measured.others_follow})
