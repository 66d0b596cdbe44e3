"""Searches for the best setting with few runs. Pure logic: the runner and the model are given.

1. Run the present variant, and predict other settings from its figures.
2. Run the most promising ones, once each. Keep the better half, and the present one unless it is clearly worse.
3. Run these again, in turn, until one is better than the others beyond the noise, or until runs are scarce.
4. Of those that the noise does not separate from the best, take the smallest that does not take clearly more memory
   than the present one.
5. Change one option of it at a time, and keep a change only if it is better beyond the noise.

The halving is that of K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification" (AISTATS 2016).

Chooses which settings are worth a run.

Predicts settings from a run, with the what-if model: the search starts with what the model suggests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

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
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.results import Outcome
from uwsgi_headroom.tune.loads.load import Load
from uwsgi_headroom.tune.search.evidence import (
    CannotTuneError,
    Evidence,
    Measure,
    describe_errors,
    describe_nothing_within,
    find_failed,
    summarise_error,
)
from uwsgi_headroom.tune.search.finals import (
    EQUAL,
    choose_smallest,
    compare_again,
    is_worth_runs,
    list_names,
    try_options,
)
from uwsgi_headroom.words.formats import byte_size, percent

MOST_THREADS = (1, 2, 4, 8, 16)
"""Threads of a process that are tried; beyond 16, one interpreter rarely has CPU for more."""

ALIKE = 0.97
"""Settings whose predictions are within 3 % count as equally good: the smallest of them is tried."""

POOR = 0.75
"""A setting that is predicted below this part of the best is tried only if nothing else is left."""

ROOM = 2
"""Threads in all, as a multiple of what the load keeps busy: more cannot help."""

MOST_PREDICTED = 24


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


def smallest(settings: Iterable[Setting]) -> Setting:
    """The setting with the fewest threads in all, then the fewest processes."""
    return min(settings, key=_size)


def _size(setting: Setting) -> tuple[int, int]:
    return setting.in_all, setting.processes


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


FEWEST_RUNS = 4

RUNS_OF_OPTIONS = 4
"""Runs that are kept for the options, if one is worth trying."""

RUNS_PER_CANDIDATE = 3
"""The allowed runs are enough for so many of each candidate."""

MOSTLY_FAILED = 0.5

Predict = Callable[[Setting, Outcome, Sequence[Setting]], Predicted]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to search. most_runs: at least FEWEST_RUNS. cpus: that the server may use. longest_queue: the kernel's limit
    of `listen`."""

    present: Variant
    load: Load
    cpus: float
    most_runs: int
    longest_queue: int = 4096


def search(task: Task, measure: Measure, predict: Predict, evidence: Evidence) -> Variant:
    """Find the best variant within `evidence.limits`. Fills the evidence on the way. Raises CannotTuneError."""
    return _Search(task, measure, predict, evidence).run()


class _Search:
    def __init__(self, task: Task, measure: Measure, predict: Predict, evidence: Evidence) -> None:
        self._task, self._measure, self._predict, self._evidence = task, measure, predict, evidence

    @property
    def _left(self) -> int:
        return self._task.most_runs - len(self._evidence.runs)

    def run(self) -> Variant:
        first = self._run_present()
        alive = self._run_candidates(first)
        reserve = RUNS_OF_OPTIONS if is_worth_runs(alive[0], self._task, self._evidence) else 0
        alive = compare_again(alive, self._task.present, self._evidence, self._run, lambda: self._left - reserve)
        best = choose_smallest(alive, self._task.present, self._evidence)
        return try_options(best, self._task, self._run, self._evidence)

    def _run(self, variant: Variant, number: int) -> None:
        self._evidence.add(variant, number, self._measure(variant, number))

    def _run_present(self) -> Outcome:
        """The first run decides whether there is anything to compare."""
        present = self._task.present
        self._run(present, 0)
        outcome = self._evidence.runs[0].outcome
        answers = outcome.answers
        if answers is None:
            log = (outcome.error or "").splitlines()[1:]
            raise CannotTuneError(f"{present.name} did not run: {summarise_error(outcome)}", log)
        if not answers.answered:
            raise CannotTuneError(
                f"No request was answered{describe_errors(answers.errors)}. Check the paths that are requested."
            )
        failed = find_failed(answers)
        if failed > MOSTLY_FAILED:
            rate = self._task.load.rate
            load = f"whether {rate:g} requests/s are more than {present.name} can answer" if rate else "the load"
            raise CannotTuneError(
                f"{percent(failed)} of the requests failed{describe_errors(answers.errors)}. Check the paths that are "
                f"requested, and {load}."
            )
        self._evidence.limits = replace(self._evidence.limits, failed=failed)
        return outcome

    def _run_candidates(self, first: Outcome) -> list[Variant]:
        present, evidence = self._task.present, self._evidence
        settings = self._within_memory(
            list_settings(present.setting, self._task.load, _count_busy(first), self._task.cpus)
        )
        predicted = self._predict(present.setting, first, settings)
        scores: Mapping[Setting, float] = predicted.scores
        if predicted.problem:
            evidence.decide(f"The settings are chosen by rule, without a prediction: {predicted.problem}")
            scores = guess(present.setting, settings, self._task.cpus)
        count = min(self._left, max(2, self._task.most_runs // RUNS_PER_CANDIDATE))
        chosen = choose(scores, count, present.setting)
        if chosen and not predicted.problem:
            names = list_names(map(str, chosen))
            evidence.decide(f"From the figures of {present.setting}, the model suggests {names}: these were run.")
        variants = [present.with_setting(setting) for setting in chosen]
        for variant in variants:
            self._run(variant, 0)
        return self._keep_better_half([present, *variants])

    def _within_memory(self, settings: Sequence[Setting]) -> Sequence[Setting]:
        limit = self._evidence.limits.memory or inf
        sizes = {setting: estimate_memory(setting, self._evidence.memory()) or 0.0 for setting in settings}
        fitting = [setting for setting in settings if sizes[setting] <= limit]
        if len(fitting) < len(settings):
            smallest = min(sizes.values())
            self._evidence.decide(
                f"{len(settings) - len(fitting)} of {len(settings)} settings were left out: by the memory of "
                f"{self._task.present.setting}, they take more than {byte_size(limit)}."
            )
            if not fitting:
                self._prove_too_small(smallest, limit)
        return fitting

    def _prove_too_small(self, smallest: float, limit: float) -> None:
        """Run one process with one thread before saying that not even this fits."""
        least = self._task.present.with_setting(Setting(1, 1))
        if self._left and not self._evidence.of(least):
            self._run(least, 0)
        if self._evidence.fault(least) and self._evidence.fault(self._task.present):
            took = self._evidence.memory().get(least.setting, smallest)
            raise CannotTuneError(
                f"One worker needs about {byte_size(took)}, and {byte_size(limit)} are allowed: raise --max-memory."
            )

    def _keep_better_half(self, variants: list[Variant]) -> list[Variant]:
        """Half of those within the limits, and the present one unless it is clearly worse. Of those that are about as
        good as the best, the smaller ones."""
        evidence, present = self._evidence, self._task.present
        within: list[Variant] = []
        for variant in dict.fromkeys([*variants, *evidence.variants]):
            fault = evidence.fault(variant)
            if fault:
                evidence.decide(f"{variant.name} is out: {fault}.")
            else:
                within.append(variant)
        if not within:
            raise CannotTuneError(describe_nothing_within(evidence))
        best = max(within, key=evidence.score)
        close = (1 - EQUAL) * evidence.score(best)
        near = sorted((variant for variant in within if evidence.score(variant) >= close), key=lambda item: item.size)
        far = sorted((variant for variant in within if variant not in near), key=evidence.score, reverse=True)
        ranked = [*near, *far]
        kept = ranked[: max(1, ceil(len(ranked) / 2))]
        for variant in ranked[len(kept) :]:
            comparison = evidence.compare(variant, best)
            if variant == present and comparison and not comparison.is_worse:
                kept.append(variant)
            else:
                others = "smaller ones were as good" if variant in near else "others were better"
                evidence.decide(f"{variant.name} was not run again: {self._say_behind(variant, best, others)}.")
        return kept

    def _say_behind(self, variant: Variant, best: Variant, others: str) -> str:
        comparison = self._evidence.compare(variant, best)
        if comparison is None or variant == best:
            return others
        behind = percent(max(0.0, 1 - comparison.ratio))
        if comparison.is_worse:
            return f"it was {behind} behind {best.name}, more than noise"
        return f"it was {behind} behind {best.name}, and {others}"


def _count_busy(outcome: Outcome) -> float:
    return outcome.observed.concurrency if outcome.observed else 0.0
