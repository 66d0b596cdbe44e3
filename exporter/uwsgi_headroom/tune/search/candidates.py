"""Chooses which settings are worth a run: predicts many from one run with the what-if model, and takes the best.

The model may be wrong, so what it suggests is measured, and where it cannot predict a rule chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from uwsgi_headroom.analysis.what_if import (
    CannotPredictError,
    Measured,
    Observed,
    Prediction,
    Setting,
    choose_settings,
    predict_settings,
)
from uwsgi_headroom.record import STATES
from uwsgi_headroom.tune.experiment.results import Outcome
from uwsgi_headroom.tune.loads.load_tools import Load

MOST_THREADS = (1, 2, 4, 8, 16)
"""Threads of a process that are tried; beyond 16, one interpreter rarely has CPU for more."""

ALIKE = 0.97
"""Settings whose predictions are within 3 % count as equally good: the smallest of them is tried."""

POOR = 0.75
"""A setting that is predicted below this part of the best is tried only if nothing else is left."""

ROOM = 2
"""Threads in all, as a multiple of what the load keeps busy: more cannot help."""

MOST_PREDICTED = 24
"""Of a longer list of settings, every second or third is predicted."""


def list_settings(present: Setting, load: Load, busy: float, cpus: float) -> tuple[Setting, ...]:
    """The settings to predict, without the present one, smallest first. busy: threads that were in use, on average."""
    count = max(1, round(cpus))
    most = max(ROOM * (load.clients or round(4 * busy)), 2 * count, present.in_all)
    processes = sorted({1, count, 2 * count, 3 * count, 4 * count, 8 * count, present.processes, 2 * present.processes})
    grid = {Setting(number, threads) for number in processes for threads in MOST_THREADS}
    around = set(choose_settings(present, cpus))
    # Fewer threads than CPUs cannot be the best, unless the load is small.
    least = min(load.clients or 1, count)
    fitting = [setting for setting in grid | around if least <= setting.in_all <= most and setting != present]
    return tuple(sorted(fitting, key=_size)[:: ceil(len(fitting) / MOST_PREDICTED) or 1])


def estimate_memory(setting: Setting, measured: Mapping[Setting, float]) -> float | None:
    """The memory of a setting in bytes, from that of others: in proportion to the processes, the master counting as
    one of them, from the nearest that was measured. None if none was."""
    if not measured:
        return None
    nearest = min(measured, key=lambda other: (abs(other.processes - setting.processes), other.threads))
    return measured[nearest] * (setting.processes + 1) / (nearest.processes + 1)


def choose(scores: Mapping[Setting, float], count: int, present: Setting) -> list[Setting]:
    """At most `count` settings to run, the most promising first: of those that are predicted alike the smallest, and
    with different numbers of processes, because the model may be wrong about what these cost."""
    chosen: list[Setting] = []
    left = {setting: score for setting, score in scores.items() if setting != present and score > 0}
    best = max(scores.values(), default=0.0)
    while left and len(chosen) < count:
        taken = {setting.processes for setting in chosen}
        others = {setting: score for setting, score in left.items() if setting.processes not in taken}
        if not others or max(others.values()) < POOR * best:
            others = left
        top = max(others.values())
        pick = min((setting for setting, score in others.items() if score >= ALIKE * top), key=_size)
        chosen.append(pick)
        del left[pick]
    return chosen


def guess(present: Setting, settings: Sequence[Setting], cpus: float) -> Mapping[Setting, float]:
    """Scores without a model: settings near twice as many processes as CPUs, with as many threads in all as today."""
    wanted = max(1.0, 2 * cpus)

    def distance(setting: Setting) -> float:
        return abs(setting.processes - wanted) / wanted + abs(setting.in_all - present.in_all) / present.in_all

    return {setting: 1 / (1 + distance(setting)) for setting in settings}


def _size(setting: Setting) -> tuple[int, int]:
    return setting.in_all, setting.processes


@dataclass(frozen=True, slots=True)
class Predicted:
    """What the model expects of settings."""

    scores: Mapping[Setting, float]
    """How good each setting is, in the unit of `evidence.find_score`; empty if nothing can be predicted."""
    problem: str | None = None
    """Why nothing can be predicted, as a sentence."""


def predict_scores(
    setting: Setting, outcome: Outcome, settings: Sequence[Setting], load: Load, cpus: float
) -> Predicted:
    """Predict settings from one that was measured. cpus: that the server may use."""
    effective = {candidate: limit_threads(candidate, load) for candidate in settings}
    try:
        predictions = _predict(setting, outcome, list(dict.fromkeys(effective.values())), load, cpus)
    except CannotPredictError as error:
        return Predicted({}, str(error))
    found = {prediction.setting: _score(prediction, load) for prediction in predictions}
    return Predicted({candidate: found[effective[candidate]] for candidate in settings})


def predict_most(setting: Setting, outcome: Outcome, load: Load, cpus: float) -> tuple[float, str] | None:
    """The most requests per second of a setting that was measured, and what limits it: `threads`, `interpreters` or
    `cpu`. None if it cannot be predicted."""
    try:
        (found,) = _predict(setting, outcome, (setting,), load, cpus)
    except CannotPredictError:
        return None
    return found.most_throughput, found.limit


def limit_threads(setting: Setting, load: Load) -> Setting:
    """The threads that a closed loop can keep busy: clients that wait for their answers occupy one each."""
    if not load.clients:
        return setting
    processes = min(setting.processes, load.clients)
    return Setting(processes, min(setting.threads, load.clients // processes))


def _predict(
    setting: Setting, outcome: Outcome, wanted: Sequence[Setting], load: Load, cpus: float
) -> Sequence[Prediction]:
    measured = _describe(limit_threads(setting, load), outcome, load, cpus)
    return predict_settings(measured, wanted, loads=(1.0,)).predictions


def _describe(setting: Setting, outcome: Outcome, load: Load, cpus: float) -> Measured:
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
