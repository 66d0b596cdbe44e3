"""Builds the document of a what-if: predictions for settings of processes and threads, with the model's error."""

from __future__ import annotations

from msgspec import Struct

from uwsgi_headroom.analysis.what_if import predict
from uwsgi_headroom.analysis.what_if.measured import Measured
from uwsgi_headroom.analysis.what_if.predict import Check, PredictedLoad, Prediction, Resource
from uwsgi_headroom.same_fields import copy_fields
from uwsgi_headroom.words.formats import amount, duration, percent
from uwsgi_headroom.words.template import fill


class WhatIf(Struct, frozen=True, kw_only=True):
    """What other settings of processes and threads would do, predicted from the setting that was observed.

    refusal: why nothing can be predicted, as a sentence; then only `name` and `time` are set besides. setting: the
    observed one; seconds: the length of the window from which the demands of a request are taken; peak: requests per
    second at the load 1; peak_is_floor: whether more requests came than `peak` says, as a full listen queue shows, or
    threads that were all busy while requests waited: then no times are predicted. demands_measured: whether wait states
    gave the demands, not only CPU and response time. check: how far the model is from what was observed. today: the
    prediction for the observed setting. predictions: in the order of the request, or sorted. cautions: sentences about
    what the model cannot know here."""

    name: str
    time: float
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
    sentence: str


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
    memory: float | None
    fits: bool | None
    memory_sentence: str | None


def build_what_if(name: str, time: float, seconds: float, result: predict.Predictions) -> WhatIf:
    """Build the document. time: epoch seconds; seconds: the length of the window."""
    measured = result.measured
    return WhatIf(
        name=name,
        time=time,
        setting=str(measured.setting),
        seconds=seconds,
        peak=measured.busiest.throughput,
        peak_is_floor=measured.offered_at_least is not None,
        demands_measured=result.demands_measured,
        check=_build_check(result),
        today=_build_setting(result.today, measured),
        predictions=tuple([_build_setting(prediction, measured) for prediction in result.predictions]),
        cautions=result.cautions,
    )


def _build_check(result: predict.Predictions) -> ModelCheck:
    check = result.check
    return ModelCheck(
        throughput=check.observed.throughput,
        response_time=check.observed.response_time,
        predicted_throughput=check.throughput,
        predicted_response_time=check.response_time,
        throughput_error=check.throughput_error,
        response_time_error=check.response_time_error,
        sentence=describe_check(check),
    )


def _build_setting(prediction: Prediction, measured: Measured) -> PredictedSetting:
    return copy_fields(
        PredictedSetting,
        prediction,
        setting=str(prediction.setting),
        processes=prediction.setting.processes,
        threads=prediction.setting.threads,
        is_observed=prediction.setting == measured.setting,
        memory_sentence=describe_memory(prediction, measured),
    )


def describe_check(check: Check) -> str:
    """The model's error on the observed setting, as one or two sentences."""
    at = f"At {amount(check.observed.throughput)} requests/s"
    parts, seen_time = [], check.observed.response_time
    if check.response_time_error is not None and seen_time is not None:
        times = duration(check.response_time), duration(seen_time)
        parts.append(_compare("response time", *times, check.response_time_error))
    if check.throughput_error is not None:
        most, seen = f"{amount(check.throughput)} requests/s", f"{amount(check.observed.throughput)} requests/s"
        parts.append(_compare("most throughput", most, seen, check.throughput_error))
    if parts:
        return f"{at} the model of the observed setting has {', and '.join(parts)}."
    return (
        f"{at} the model agrees with the observation because it was fitted to it: its error is not known. With wait "
        "states, or a peak in the history, it would be."
    )


def _compare(what: str, predicted: str, observed: str, error: float) -> str:
    where = "as observed" if abs(error) < 0.005 else f"{percent(abs(error))} {'above' if error > 0 else 'below'}"
    return f"a {what} of {predicted}, {where}" + ("" if abs(error) < 0.005 else f" the {observed} observed")


NO_ROOM = (
    "{setting}: {more:more worker} of [bound? at most ]{size:bytes} [bound? may][not bound? do] not fit into the "
    "{available:bytes} available."
)


def describe_memory(prediction: Prediction, measured: Measured) -> str | None:
    """Why the workers of a setting do not fit into memory, or may not; None if they fit, or if that is unknown."""
    memory, more = measured.memory, prediction.setting.processes - measured.running.processes
    if memory is None or prediction.fits:
        return None
    return fill(
        NO_ROOM,
        {
            "setting": str(prediction.setting),
            "more": more,
            "bound": not memory.is_exact,
            "size": memory.per_worker,
            "available": memory.available,
        },
    )
