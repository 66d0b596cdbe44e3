"""Searches for the best setting with few runs. Pure logic: the runner and the model are given.

1. Run the present variant, and predict other settings from its figures.
2. Run the most promising ones, once each. Keep the better half, and the present one unless it is clearly worse.
3. Run these again, in turn, until one is better than the others beyond the noise, or until runs are scarce.
4. Of those that the noise does not separate from the best, take the smallest that does not take clearly more memory
   than the present one.
5. Change one option of it at a time, and keep a change only if it is better beyond the noise.

The halving is that of K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification" (AISTATS 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil, inf

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.results import Outcome
from uwsgi_headroom.tune.search.candidates import Predicted, choose, estimate_memory, guess, list_settings
from uwsgi_headroom.tune.search.evidence import (
    CannotTuneError,
    Evidence,
    Task,
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
    try_options,
)
from uwsgi_headroom.words.formats import byte_size, listed, percent

RUNS_OF_OPTIONS = 4
"""Runs that are kept for the options, if one is worth trying."""

RUNS_PER_CANDIDATE = 3
"""The allowed runs are enough for so many of each candidate."""

MOSTLY_FAILED = 0.5
"""The part of the present variant's requests that fails, from which on there is nothing to compare."""

Measure = Callable[[Variant, int], Outcome]
"""Runs a variant in a round. The round is the number of the repetition."""

Predict = Callable[[Setting, Outcome, Sequence[Setting]], Predicted]
"""Predicts settings from the outcome of one."""


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
        busy = first.observed.concurrency if first.observed else 0.0
        settings = self._within_memory(list_settings(present.setting, self._task.load, busy, self._task.cpus))
        predicted = self._predict(present.setting, first, settings)
        scores: Mapping[Setting, float] = predicted.scores
        if predicted.problem:
            evidence.decide(f"The settings are chosen by rule, without a prediction: {predicted.problem}")
            scores = guess(present.setting, settings, self._task.cpus)
        count = min(self._left, max(2, self._task.most_runs // RUNS_PER_CANDIDATE))
        chosen = choose(scores, count, present.setting)
        if chosen and not predicted.problem:
            names = listed([str(each) for each in chosen])
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
