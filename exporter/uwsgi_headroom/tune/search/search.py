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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, inf, log2
from statistics import median

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
from uwsgi_headroom.words.formats import byte_size, counted, fine_percent, listed, percent

Run = Callable[[Variant, int], None]
"""Runs a variant in a round, and adds the outcome to the evidence."""

MOST_ROUNDS = 4
"""More rounds rarely separate what these have not."""

CLOSE = 0.05
"""Variants that differ by less, with noise that explains less, are not compared further."""

EQUAL = 0.03
"""A smaller variant is taken only if it is at most this much behind: noise alone is no reason to lose more."""

MORE_MEMORY = 0.1
"""A change that is not better beyond the noise may take this much more memory."""


def compare_again(
    alive: list[Variant], present: Variant, evidence: Evidence, run: Run, left: Callable[[], int]
) -> list[Variant]:
    """Run rounds of these variants until one is the best beyond the noise, or the differences are known to be small, or
    not enough runs are left. Returns those that the noise does not separate from the best, best first. Raises
    CannotTuneError if none keeps to the limits."""
    number = 1
    while number < MOST_ROUNDS and left() >= 2 and not _is_settled(alive, evidence):
        alive = _keep_as_many(alive, left(), present, evidence)
        for variant in alive:
            run(variant, number)
        number += 1
        within = _keep_within(alive, evidence)
        best = max(within, key=evidence.score)
        others = [variant for variant in within if variant != best]
        alive = [best, *(variant for variant in others if not _is_worse(variant, best, evidence))]
    return alive


def _keep_within(variants: Iterable[Variant], evidence: Evidence) -> list[Variant]:
    """Those that keep to the limits. Raises CannotTuneError if none does."""
    within: list[Variant] = []
    for variant in variants:
        if fault := evidence.fault(variant):
            evidence.decide(f"{variant.name} is out: {fault}.")
        else:
            within.append(variant)
    if not within:
        raise CannotTuneError(describe_nothing_within(evidence))
    return within


def choose_smallest(alive: list[Variant], present: Variant, evidence: Evidence) -> Variant:
    """The smallest of those that are as good as the best, with two processes or more if one of them has, and without
    clearly more memory than the present one if one of them takes no more. The present one if it takes more memory than
    that, and is not better beyond the noise."""
    best = max(alive, key=evidence.score)
    inside = [best, *(variant for variant in alive if variant != best and not _is_worse(variant, best, evidence))]
    is_lone = best.setting.processes == 1
    others = [
        variant
        for variant in inside[1:]
        if variant.size < best.size or variant == present or (is_lone and variant.setting.processes > 1)
    ]
    equal = [best, *(variant for variant in others if _is_close(variant, best, evidence))]
    lone = [variant for variant in equal if variant.setting.processes == 1]
    if lone and len(lone) < len(equal):
        names = listed([variant.name for variant in lone])
        evidence.decide(
            f"More than one process is preferred, since requests wait while a single one restarts, and {names} "
            f"{'is' if len(lone) == 1 else 'are'} no faster beyond the noise."
        )
        equal = [variant for variant in equal if variant not in lone]
        inside = [variant for variant in inside if variant not in lone]
    lean = [variant for variant in equal if _find_more_memory(variant, present, evidence) <= MORE_MEMORY]
    chosen = min(lean or equal, key=lambda variant: variant.size)
    if len(inside) > 1:
        names = listed([variant.name for variant in inside])
        if all(chosen.size <= variant.size for variant in inside):
            reason = "so the smallest is taken"
        elif lean and len(lean) < len(equal):
            reason = (
                f"so the smallest is taken whose memory is at most {percent(MORE_MEMORY)} more than that of "
                f"{present.name}"
            )
        elif chosen == best:
            reason = "and the best is taken"
        else:
            reason = f"so the smallest of those that were at most {fine_percent(EQUAL)} behind is taken"
        evidence.decide(f"The differences between {names} are inside the noise, {reason}: {chosen.name}.")
    return present if _is_unproven(chosen, present, evidence) else chosen


def _keep_as_many(alive: list[Variant], left: int, present: Variant, evidence: Evidence) -> list[Variant]:
    """As many variants as runs are left: the best so far and the present one first."""
    best = max(alive, key=evidence.score)
    first = [best, present] if present in alive else [best]
    kept = list(dict.fromkeys([*first, *alive]))[:left]
    if others := [variant.name for variant in alive if variant not in kept]:
        were = "was" if len(others) == 1 else "were"
        evidence.decide(f"{listed(others)} {were} not run again: only {counted(left, 'run')} were left.")
    return [variant for variant in alive if variant in kept]


def _is_unproven(chosen: Variant, present: Variant, evidence: Evidence) -> bool:
    """Whether a variant would cost more memory than the present one for a gain that may be noise. The present one may
    have been left out when the noise seemed smaller."""
    more = _find_more_memory(chosen, present, evidence)
    comparison = evidence.compare(chosen, present)
    if more <= MORE_MEMORY or evidence.fault(present) or comparison is None or comparison.is_better:
        return False
    word = "better" if comparison.ratio >= 1 else "worse"
    evidence.decide(
        f"{chosen.name} is not taken instead of {present.name}: it took {percent(more)} more memory, and was "
        f"{fine_percent(abs(comparison.ratio - 1))} {word}, inside the noise, which explains "
        f"{percent(comparison.explained)}."
    )
    return True


def _find_more_memory(variant: Variant, present: Variant, evidence: Evidence) -> float:
    """How much more memory a variant takes than the present one, as a part of that; 0 if unknown."""
    memory = evidence.memory()
    theirs, ours = memory.get(present.setting), memory.get(variant.setting)
    return ours / theirs - 1 if ours and theirs else 0.0


def _is_settled(alive: list[Variant], evidence: Evidence) -> bool:
    """Whether further rounds would not change the choice: one is left, or all are close to the best for sure."""
    comparisons = [evidence.compare(variant, alive[0]) for variant in alive[1:]]
    return all(found and found.margin <= CLOSE and abs(found.ratio - 1) <= CLOSE for found in comparisons)


def _is_worse(variant: Variant, best: Variant, evidence: Evidence) -> bool:
    comparison = evidence.compare(variant, best)
    if comparison is None or not comparison.is_worse:
        return False
    evidence.decide(
        f"{variant.name} is worse than {best.name} by {percent(1 - comparison.ratio)}, in "
        f"{counted(comparison.rounds, 'round')}; noise explains {percent(comparison.explained)}."
    )
    return True


def _is_close(variant: Variant, best: Variant, evidence: Evidence) -> bool:
    """Whether a variant may be taken instead of the best: noise alone is no reason to lose more than EQUAL."""
    comparison = evidence.compare(variant, best)
    if comparison is None:
        return False
    if comparison.ratio >= 1 - EQUAL:
        return True
    evidence.decide(
        f"{variant.name} is not taken instead of {best.name}: it was {percent(1 - comparison.ratio)} behind, although "
        f"noise explains {percent(comparison.explained)}."
    )
    return False


UNEVEN = 1.2
"""The least hot ratio at which evening out the workers can matter."""

ROUNDS = 2
"""Rounds of the variant with the option and without it."""


def try_options(best: Variant, task: Task, run: Run, evidence: Evidence) -> Variant:
    """The best variant after the options were tried, each beside the best so far."""
    for name, consider in _OPTIONS.items():
        changed, reason = consider(best, task, evidence)
        if changed is None:
            evidence.decide(f"{name} was not tried: {reason}.")
        elif task.most_runs - len(evidence.runs) < 2:
            evidence.decide(f"{name} was not tried, although {reason}: no runs are left (--most-runs).")
        else:
            best = _try(name, best, changed, task, run, evidence)
    return best


def is_worth_runs(best: Variant, task: Task, evidence: Evidence) -> bool:
    """Whether one of the options will be tried."""
    return any(consider(best, task, evidence)[0] is not None for consider in _OPTIONS.values())


def _try(name: str, best: Variant, changed: Variant, task: Task, run: Run, evidence: Evidence) -> Variant:
    # Rounds of their own: the two are compared in runs that follow each other.
    first = 1 + max(done.number for done in evidence.runs)
    for number in range(first, first + ROUNDS):
        if task.most_runs - len(evidence.runs) < 2:
            break
        run(best, number)
        run(changed, number)
    fault = evidence.fault(changed)
    comparison = evidence.compare(changed, best)
    if fault or comparison is None:
        evidence.decide(f"{changed.name} is out: {fault or 'it could not be compared'}.")
        return best
    by, margin = fine_percent(abs(comparison.ratio - 1)), percent(comparison.explained)
    if comparison.is_better:
        evidence.decide(f"{changed.name} is better than {best.name} by {by}; noise explains {margin}.")
        return changed
    if comparison.is_worse:
        evidence.decide(f"{changed.name} is worse than {best.name} by {by}, so {name} stays as it is.")
    else:
        evidence.decide(
            f"{changed.name} is not better than {best.name} beyond the noise: the difference is {by}, and noise "
            f"explains {margin}. So {name} stays as it is."
        )
    return best


Considered = tuple[Variant | None, str]
"""What to try, and why; or None, and why not."""


def _consider_thunder_lock(best: Variant, _task: Task, evidence: Evidence) -> Considered:
    if best.thunder_lock:
        return replace(best, thunder_lock=False), "each request pays for it"
    if best.setting.processes == 1:
        return None, "one process has nothing to share"
    seen = [outcome.observed for outcome in evidence.of(best) if outcome.observed]
    ratios = [figures.hot_ratio for figures in seen if figures.hot_ratio is not None]
    changed = replace(best, thunder_lock=True)
    if not ratios:
        return changed, "how the processes share the requests is not known"
    hot_ratio = median(ratios)
    if hot_ratio < UNEVEN:
        return None, f"the processes of {best.name} share the requests evenly (hot ratio {hot_ratio:.2f})"
    return changed, f"its processes share the requests unevenly (hot ratio {hot_ratio:.2f})"


def _consider_reuse_port(_best: Variant, _task: Task, _evidence: Evidence) -> Considered:
    # uWSGI binds an address once, before it starts its processes, even if it is given several times.
    return None, "it is for several uWSGIs on one port; the processes of one share one socket with it, too"


def _consider_cheaper(best: Variant, _task: Task, _evidence: Evidence) -> Considered:
    if best.cheaper is None:
        return None, "it stops idle processes, which makes nothing faster under a steady load"
    return replace(best, cheaper=None), "it starts processes while requests wait"


def _consider_listen(best: Variant, task: Task, _evidence: Evidence) -> Considered:
    waiting = task.load.clients - best.setting.in_all
    if waiting <= best.queue:
        return None, f"the queue of {best.queue} is longer than this load can fill"
    longer = min(task.longest_queue, 2 ** ceil(log2(waiting + 1)))
    if longer <= best.queue:
        return None, f"the kernel allows at most {task.longest_queue} (net.core.somaxconn)"
    return replace(best, listen=longer), f"{counted(waiting, 'client')} may wait in a queue of {best.queue}"


_OPTIONS: Mapping[str, Callable[[Variant, Task, Evidence], Considered]] = {
    "thunder-lock": _consider_thunder_lock,
    "reuse-port": _consider_reuse_port,
    "cheaper": _consider_cheaper,
    "listen": _consider_listen,
}


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
        within = _keep_within(dict.fromkeys([*variants, *evidence.variants]), evidence)
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
