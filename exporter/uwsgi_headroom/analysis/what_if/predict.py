"""Predicts settings by the closed form of `repairman`, and compares it with what was observed.

A request's demands come from the observed setting. Time in the states `cpu_wait` and `interpreter_lock` is
queueing, which another setting changes. Without wait states, the waiting is what fits the observed response time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, isfinite
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.capacity import LEAST_OWN
from uwsgi_headroom.analysis.demand import SATURATED
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.repairman import Model, Times, find_times, flow_equivalent
from uwsgi_headroom.analysis.what_if.cautions import list_cautions
from uwsgi_headroom.analysis.what_if.measured import CannotPredictError, Measured, Observed, Setting
from uwsgi_headroom.record import State
from uwsgi_headroom.same_fields import given
from uwsgi_headroom.words.formats import amount, duration
from uwsgi_headroom.words.template import Facts, fill

Resource = Literal["threads", "interpreters", "cpu", "lock"]


class PredictedLoad(Struct, frozen=True, kw_only=True):
    """A setting under one load. load: as a multiple of the peak; throughput: the requests per second that arrive.
    sustained: whether it serves them all; if not, times are null, because the queue grows without end; they are null
    too if `peak_is_floor`, because more requests would arrive. response_time: mean time in service; queue_wait: mean
    time in the listen queue; total_time: both together. threads, interpreters, cpu, lock: utilization, 0 to 1, of the
    threads, the interpreter locks, the CPUs (with the use by other programs) and the locks of the application; if the
    load is not sustained, at the highest throughput."""

    load: float
    throughput: float
    sustained: bool
    response_time: float | None = None
    queue_wait: float | None = None
    total_time: float | None = None
    threads: float
    interpreters: float
    cpu: float
    lock: float = 0.0


class PredictedSetting(Struct, frozen=True, kw_only=True):
    """The prediction for a setting. setting: as in `8x4`, 8 processes with 4 threads each; most_throughput: requests
    per second at which `limit` is used up; loads: one entry for each load; memory: bytes of all workers together; fits:
    whether they fit into the memory available now, null if unknown; memory_sentence: the same in words, null if they
    fit."""

    setting: str
    processes: int
    threads: int
    is_observed: bool
    most_throughput: float
    limit: Resource
    loads: tuple[PredictedLoad, ...]
    memory: int | None
    fits: bool | None
    memory_sentence: str | None


class ModelCheck(Struct, frozen=True, kw_only=True):
    """The model of the observed setting against what was observed at an observed load. predicted_throughput,
    predicted_response_time: by the model. Errors are relative: 0.1 means that the model is 10 % above what was
    observed; null if that was not observed, or if the model was fitted to it. sentence: the same in words."""

    throughput: float
    response_time: float | None
    predicted_throughput: float
    predicted_response_time: float
    throughput_error: float | None
    response_time_error: float | None
    sentence: str = ""


class WhatIf(Struct, frozen=True, kw_only=True):
    """What other settings of processes and threads would do, predicted from the setting that was observed.

    refusal: why nothing can be predicted, as a sentence; then only `name` and `time` are set besides. setting: the
    observed one; seconds: the length of the window from which the demands of a request are taken; peak: requests per
    second at the load 1; peak_is_floor: whether more requests came than `peak` says, as a full listen queue shows, or
    threads that were all busy while requests waited: then no times are predicted. demands_measured: whether wait states
    gave the demands, not only CPU and response time. check: how far the model is from what was observed. today: the
    prediction for the observed setting. predictions: in the order of the request, or sorted. cautions: sentences about
    what the model cannot know here."""

    name: str = ""
    time: float = 0.0
    refusal: str | None = None
    setting: str | None = None
    seconds: float | None = None
    peak: float | None = None
    peak_is_floor: bool = False
    demands_measured: bool | None = None
    check: ModelCheck | None = None
    today: PredictedSetting | None = None
    predictions: tuple[PredictedSetting, ...] = ()
    cautions: tuple[str, ...] = ()


def predict_settings(measured: Measured, settings: Sequence[Setting], loads: Sequence[float] = (1.0, 1.5)) -> WhatIf:
    """Predict these settings at these multiples of the peak load. Raises CannotPredictError."""
    server, highest = calibrate(measured), max(loads, default=0.0) * measured.busiest.throughput
    predicted = {each: predict_setting(server, each, loads) for each in dict.fromkeys((measured.setting, *settings))}
    wait = server.find_lock_wait() if server.from_waits else None
    cautions = list_cautions(measured, server.model, settings, lock_wait=wait, highest=highest)
    return WhatIf(
        setting=str(measured.setting),
        peak=measured.busiest.throughput,
        peak_is_floor=measured.offered_at_least is not None,
        demands_measured=server.from_waits,
        check=_check(server),
        today=predicted[measured.setting],
        predictions=tuple([predicted[setting] for setting in settings]),
        cautions=tuple(cautions),
    )


class CalibratedServer(Struct, frozen=True):
    """What no setting changes: the demands with which the model of the observed setting agrees with the observation."""

    measured: Measured
    model: Model
    """With all CPUs."""
    from_waits: bool
    """Whether wait states gave the demands; else the time spent waiting was derived from the response time."""
    others: float
    """CPUs that other programs use whatever the load is."""
    others_per_request: float
    """CPU seconds that other programs use for each request besides."""
    spread: float
    """The coefficient of variation of a request's time."""

    def beside_others(self, rate: float) -> Model:
        """The model with the CPUs that other programs leave at `rate` requests per second."""
        others = self.others + rate * self.others_per_request
        return replace(self.model, cpus=max(self.model.cpus - others, LEAST_OWN * self.model.cpus))

    def chain(self, setting: Setting, rate: float) -> Sequence[tuple[float, float]]:
        """The flow-equivalent server of a setting, beside the other programs at this rate."""
        shares = self.measured.shares
        if setting != self.measured.running or len(shares) != setting.processes:
            shares = ()
        return flow_equivalent(self.beside_others(rate), setting.processes, setting.threads, shares)

    def find_most(self, setting: Setting) -> float:
        """The most requests per second: all threads are busy, beside the other programs at just this rate."""
        low = high = self.chain(setting, 0.0)[-1][0]
        if self.others_per_request:
            low = 0.0
            for _ in range(_HALVINGS):
                rate = (low + high) / 2
                served = self.beside_others(rate).most_throughput(setting.processes, setting.threads)
                low, high = (rate, high) if served > rate else (low, rate)
        return min(low or high, self.chain(setting, low)[-1][0])

    def find_times(self, setting: Setting, rate: float, *, is_full: bool = False) -> Times:
        """The times at a rate; of a rate that is not sustained, or if all threads are busy, those at the most."""
        most = self.find_most(setting)
        chain = self.chain(setting, rate)
        if is_full or rate > MOST_LOAD * min(most, chain[-1][0]):
            return Times(setting.in_all / most, 0.0, chain[-1][1])
        return find_times(chain, rate, self.spread)

    def observe(self, observed: Observed) -> Times:
        """The times of the observed setting at an observed load."""
        setting = self.measured.running
        return self.find_times(setting, observed.throughput, is_full=is_full(setting, observed))

    def find_lock_wait(self) -> float:
        """Seconds that a mean request of the window waits for the interpreter lock."""
        times, model = self.observe(self.measured.window), self.model
        own = model.waiting + model.serial + (model.computing + model.unlocked) * times.slower
        return max(0.0, times.service - own)


MOST_LOAD = 0.97
"""A load counts as sustained up to this fraction of the most throughput. Above it, small differences decide how long
the queue is: a figure would mean nothing."""


LEAST_LOCK_WAIT = 0.05
"""The predicted wait for the lock, as a part of the response time, above which the observed one says how much of the
CPU time is under the lock."""

LESS_LOCK_WAIT = 0.6
"""With less than this part of the predicted wait observed, a part of the CPU time is outside the lock."""

MOST_LOCK_LOAD = 0.98
"""The most of a second that an interpreter lock is held."""

QUEUEING: tuple[State, ...] = ("cpu_wait", "interpreter_lock")
"""States that are not part of the demand. If the application's lock is known, neither is the wait for it."""

P95_OF_SPREAD = 1.9
"""The 95th percentile of a gamma distribution, in standard deviations above the mean: 1.8 for a coefficient of
variation of 0.25 to 2.0 for one of 1 and more."""

MOST_SPREAD = 2.0

_LEAST_DEMAND = 0.01
_HALVINGS = 20
_ROUNDS = 6
_CLOSE = 0.005


def is_full(setting: Setting, observed: Observed) -> bool:
    """Whether all threads were in use, so that the observed throughput was the most that the setting serves."""
    return (observed.concurrency or 0.0) >= SATURATED * setting.in_all


def own_waiting(waits: Mapping[State, float], response_time: float, lock: LockFigures | None = None) -> float:
    """Seconds of waiting of a mean request, without what it waits for while it holds the lock of the application."""
    left_out = {"cpu", *QUEUEING}
    if lock:
        left_out.add("lock")
    own = fsum(seconds for state, seconds in waits.items() if state not in left_out)
    return response_time * own / fsum(waits.values())


def calibrate(measured: Measured) -> CalibratedServer:
    """Find the demands from the measurements. Raises CannotPredictError if these do not support it."""
    window, waits, lock = measured.window, measured.waits, measured.lock
    response_time, cpu = _known(measured)
    from_waits = waits is not None and fsum(waits.values()) > 0
    waiting = own_waiting(waits, response_time, lock) if waits and from_waits else max(0.0, response_time - cpu)
    if cpu + waiting < _LEAST_DEMAND * response_time:
        waiting = response_time
    serial = (lock and lock.seconds) or 0.0
    # More of the CPU time cannot be under the locks than they can be held.
    locked = min(cpu, MOST_LOCK_LOAD * measured.running.processes / window.throughput)
    others, spread = measured.others if isfinite(measured.others) else 0.0, 1.0
    if window.p95 is not None and isfinite(window.p95) and window.p95 > 0:
        spread = max(0.0, min(MOST_SPREAD, (window.p95 / response_time - 1) / P95_OF_SPREAD))
    server = CalibratedServer(
        measured=measured,
        model=Model(
            computing=locked,
            waiting=max(0.0, waiting - serial),
            cpus=measured.cpus,
            unlocked=cpu - locked,
            serial=serial,
            serial_is_shared=lock is not None and lock.scope == "file",
        ),
        from_waits=from_waits,
        others=0.0 if measured.others_follow else others,
        others_per_request=others * measured.others_follow / window.throughput,
        spread=spread,
    )
    if not waits or not from_waits:
        return _fit_waiting(server, response_time)
    if lock:
        return server
    return _fit_lock(server, waits.get("interpreter_lock", 0.0))


def _known(measured: Measured) -> tuple[float, float]:
    if not measured.window.throughput > 0:
        raise CannotPredictError("No request was completed, so there is nothing to predict from.")
    if measured.window.response_time is None or not measured.window.response_time > 0:
        raise CannotPredictError("The response time is not known, so nobody knows what a request needs.")
    if measured.cpu_per_request is None or not measured.cpu_per_request >= 0 or not measured.cpus > 0:
        raise CannotPredictError(
            "The CPU time of the workers is not known, so it is not known what a request needs. Run the exporter on "
            "uWSGI's host, in the same PID namespace."
        )
    return measured.window.response_time, measured.cpu_per_request


def _fit_lock(server: CalibratedServer, observed: float) -> CalibratedServer:
    """The part of the CPU time under the lock with which the model's wait for the lock is the observed one."""
    cpu = server.model.computing + server.model.unlocked
    predicted = server.find_lock_wait()
    is_small = predicted < LEAST_LOCK_WAIT * (server.measured.window.response_time or 0.0)
    if is_small or observed >= LESS_LOCK_WAIT * predicted:
        return server
    low, high = 0.0, server.model.computing
    for _ in range(_ROUNDS):
        locked = (high + low) / 2
        server = replace(server, model=replace(server.model, computing=locked, unlocked=cpu - locked))
        low, high = (low, locked) if server.find_lock_wait() > observed else (locked, high)
    return server


def _fit_waiting(server: CalibratedServer, response_time: float) -> CalibratedServer:
    """The waiting with which the model's response time is the observed one."""
    for _ in range(_ROUNDS):
        surplus = server.observe(server.measured.window).service - response_time
        if abs(surplus) <= _CLOSE * response_time:
            break
        server = replace(server, model=replace(server.model, waiting=max(0.0, server.model.waiting - surplus)))
    return server


USED_UP = {"cpu": 0.95, "interpreters": 0.9, "lock": 0.9}
"""Utilization at the most throughput from which on a resource limits it, the first of these; else the threads do."""


def predict_setting(server: CalibratedServer, setting: Setting, loads: Sequence[float]) -> PredictedSetting:
    """Predict one setting at these multiples of the peak load."""
    most, measured = server.find_most(setting), server.measured
    full = _describe_use(server, setting, most, Times(setting.in_all / most, 0.0, server.chain(setting, most)[-1][1]))
    left = server.beside_others(most)  # programs that use all CPUs also leave a part
    used = {**full, "cpu": most * (left.computing + left.unlocked) / left.cpus}
    memory, more = measured.memory, setting.processes - measured.running.processes
    fits, sentence = given(memory, lambda memory: memory.has_room(more)), None
    if memory and not fits:
        facts: Facts = {"setting": str(setting), "more": more, "bound": not memory.is_exact}
        sentence = fill(NO_ROOM, {**facts, "size": memory.per_worker, "available": memory.available})
    return PredictedSetting(
        setting=str(setting),
        processes=setting.processes,
        threads=setting.threads,
        is_observed=setting == measured.setting,
        most_throughput=most,
        limit=next((name for name, least in USED_UP.items() if used[name] >= least), "threads"),  # type: ignore[misc]
        loads=tuple(_describe_load(server, setting, load, most, full) for load in loads),
        memory=given(memory, lambda memory: setting.processes * memory.per_worker),
        fits=fits,
        memory_sentence=sentence,
    )


NO_ROOM = (
    "{setting}: {more:more worker} of [bound? at most ]{size:bytes} [bound? may][not bound? do] not fit into the "
    "{available:bytes} available."
)


def _describe_load(
    server: CalibratedServer, setting: Setting, load: float, most: float, full: Mapping[str, float]
) -> PredictedLoad:
    rate = load * server.measured.busiest.throughput
    if rate > MOST_LOAD * most:
        return PredictedLoad(load=load, throughput=rate, sustained=False, **full)
    times = server.find_times(setting, rate)
    at = PredictedLoad(load=load, throughput=rate, sustained=True, **_describe_use(server, setting, rate, times))
    if server.measured.offered_at_least is not None:
        return at
    wait = times.queue_wait
    return replace(at, response_time=times.service, queue_wait=wait, total_time=times.service + wait)


def _describe_use(server: CalibratedServer, setting: Setting, rate: float, times: Times) -> dict[str, float]:
    model, processes = server.model, setting.processes
    others = server.others + rate * server.others_per_request
    uses = {
        "threads": rate * times.service / setting.in_all,
        "interpreters": rate * model.computing * times.slower / processes,
        "cpu": (rate * (model.computing + model.unlocked) + others) / model.cpus,
        "lock": rate * model.serial / (1 if model.serial_is_shared else processes),
    }
    return {name: min(1.0, use) for name, use in uses.items()}


def _check(server: CalibratedServer) -> ModelCheck:
    """The model of the observed setting at the observed load: at the peak if its response time is known."""
    measured, setting = server.measured, server.measured.running
    is_peak = measured.peak is not None and measured.peak.response_time is not None
    observed = measured.busiest if is_peak else measured.window
    most, time = server.find_most(setting), server.observe(observed).service
    is_most = is_full(setting, observed) or most < observed.throughput
    is_timed = is_peak or server.from_waits
    check = ModelCheck(
        throughput=observed.throughput,
        response_time=observed.response_time,
        predicted_throughput=most if is_most else observed.throughput,
        predicted_response_time=time,
        throughput_error=most / observed.throughput - 1 if is_most else None,
        response_time_error=time / observed.response_time - 1 if is_timed and observed.response_time else None,
    )
    return replace(check, sentence=describe_check(check))


def describe_check(check: ModelCheck) -> str:
    """The model's error on the observed setting, as one or two sentences."""
    at, parts, seen_time = f"At {amount(check.throughput)} requests/s", [], check.response_time
    if check.response_time_error is not None and seen_time is not None:
        times = duration(check.predicted_response_time), duration(seen_time)
        parts.append(_compare("response time", *times, check.response_time_error))
    if check.throughput_error is not None:
        most, seen = (f"{amount(each)} requests/s" for each in (check.predicted_throughput, check.throughput))
        parts.append(_compare("most throughput", most, seen, check.throughput_error))
    if parts:
        return f"{at} the model of the observed setting has {', and '.join(parts)}."
    return (
        f"{at} the model agrees with the observation because it was fitted to it: its error is not known. With wait "
        "states, or a peak in the history, it would be."
    )


COMPARED = (
    "a {what} of {predicted}, [not differs? as observed][differs? {differs:percent} ][above? above][below? below]"
    "[differs?  the {observed} observed]"
)


def _compare(what: str, predicted: str, observed: str, error: float) -> str:
    differs = abs(error) >= 0.005
    facts: Facts = {"what": what, "predicted": predicted, "observed": observed, "differs": differs and abs(error)}
    return fill(COMPARED, {**facts, "above": differs and error > 0, "below": differs and error < 0})
