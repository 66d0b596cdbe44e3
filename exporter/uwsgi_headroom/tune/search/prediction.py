"""Predicts settings from a run, with the what-if model: the search starts with what the model suggests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from uwsgi_headroom.analysis.what_if import (
    CannotPredictError,
    Measured,
    Observed,
    Prediction,
    Setting,
    predict_settings,
)
from uwsgi_headroom.record.waits import STATES
from uwsgi_headroom.tune.experiment.outcome import Outcome
from uwsgi_headroom.tune.loads.load import Load


@dataclass(frozen=True, slots=True)
class Predicted:
    """scores: how good each setting is expected to be, in the unit of `limits.find_score`; empty if nothing can be
    predicted, and then `problem` is the reason, as a sentence."""

    scores: Mapping[Setting, float]
    problem: str | None = None


def predict_scores(
    setting: Setting, outcome: Outcome, settings: Sequence[Setting], load: Load, cpus: float
) -> Predicted:
    """Predict settings from one that was measured. cpus: that the server may use."""
    effective = {candidate: limit_threads(candidate, load) for candidate in settings}
    try:
        measured = describe(limit_threads(setting, load), outcome, load, cpus)
        what_if = predict_settings(measured, list(dict.fromkeys(effective.values())), loads=(1.0,))
    except CannotPredictError as error:
        return Predicted({}, str(error))
    found = {prediction.setting: _score(prediction, load) for prediction in what_if.predictions}
    return Predicted({candidate: found[effective[candidate]] for candidate in settings})


def predict_most(setting: Setting, outcome: Outcome, load: Load, cpus: float) -> tuple[float, str] | None:
    """The most requests per second of a setting that was measured, and what limits it: `threads`, `interpreters` or
    `cpu`. None if it cannot be predicted."""
    try:
        measured = describe(limit_threads(setting, load), outcome, load, cpus)
        (found,) = predict_settings(measured, (setting,), loads=(1.0,)).predictions
    except CannotPredictError:
        return None
    return found.most_throughput, found.limit


def limit_threads(setting: Setting, load: Load) -> Setting:
    """The threads that a closed loop can keep busy: clients that wait for their answers occupy one each."""
    if not load.clients:
        return setting
    processes = min(setting.processes, load.clients)
    return Setting(processes, min(setting.threads, load.clients // processes))


def describe(setting: Setting, outcome: Outcome, load: Load, cpus: float) -> Measured:
    """What the model needs. Of other programs, only the clients count: what else this machine does meanwhile is no part
    of the server. Raises CannotPredictError if the run has no figures of uWSGI."""
    seen = outcome.observed
    if seen is None or seen.throughput <= 0:
        raise CannotPredictError("The run has no figures of uWSGI, so there is nothing to predict from.")
    server_cpu = outcome.server_cpu
    return Measured(
        setting=setting,
        cpus=cpus,
        window=Observed(
            throughput=seen.throughput,
            response_time=seen.response_time,
            concurrency=min(seen.concurrency, setting.in_all),
        ),
        peak=Observed(throughput=load.rate, response_time=None) if load.rate else None,
        cpu_per_request=None if server_cpu is None else server_cpu / seen.throughput,
        waits={state: seen.waits[state] / seen.throughput for state in STATES if state in seen.waits} or None,
        others=outcome.clients_cpu or 0.0,
        others_follow=True,
    )


def _score(prediction: Prediction, load: Load) -> float:
    if not load.rate:
        return prediction.most_throughput
    (at,) = prediction.at
    # A rate that is not sustained has no time: below all others, and the more it serves, the better.
    return 1 / at.total_time if at.total_time else 1e-6 * prediction.most_throughput
