"""What a search has measured and decided so far, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.outcome import Outcome
from uwsgi_headroom.tune.search.limits import Limits, find_fault, find_score
from uwsgi_headroom.tune.search.noise import Comparison, compare, find_usual

Measure = Callable[[Variant, int], Outcome]
"""Runs a variant in a round. The round is the number of the repetition."""


class CannotTuneError(HeadroomError):
    """The search has no result; the message is a sentence that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a variant."""

    variant: Variant
    number: int
    outcome: Outcome


@dataclass(slots=True)
class Evidence:
    """Filled by the search, so that an interrupted search leaves what it found. decisions: one sentence each."""

    limits: Limits = field(default_factory=Limits)
    runs: list[Run] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)

    def add(self, variant: Variant, number: int, outcome: Outcome) -> None:
        """Keep a run."""
        self.runs.append(Run(variant, number, outcome))

    def decide(self, sentence: str) -> None:
        """Keep a decision."""
        self.decisions.append(sentence)

    @property
    def variants(self) -> list[Variant]:
        """Each variant that was run, in the order of the first runs."""
        return list(dict.fromkeys(run.variant for run in self.runs))

    def of(self, variant: Variant) -> list[Outcome]:
        """The outcomes of a variant."""
        return [run.outcome for run in self.runs if run.variant == variant]

    def fault(self, variant: Variant) -> str | None:
        """Why a variant is out, in its first run that shows it; None if it is within the limits."""
        faults = (find_fault(outcome, self.limits) for outcome in self.of(variant))
        return next((fault for fault in faults if fault), None)

    def scores(self) -> Mapping[str, Mapping[int, float]]:
        """The score of each variant by round."""
        found: dict[str, dict[int, float]] = {}
        for run in self.runs:
            score = find_score(run.outcome, self.limits)
            if score is not None:
                found.setdefault(run.variant.name, {})[run.number] = score
        return found

    def score(self, variant: Variant) -> float:
        """The mean score of a variant over its rounds; 0 without any."""
        scores = self.scores().get(variant.name, {})
        return sum(scores.values()) / len(scores) if scores else 0.0

    def compare(self, first: Variant, second: Variant) -> Comparison | None:
        """Compare two variants over their common rounds."""
        return compare(first.name, second.name, self.scores(), find_usual(self.neighbours()))

    def neighbours(self) -> float:
        """The part of all CPUs that programs other than the server and its clients used; the median of the runs."""
        parts = [
            (sum(outcome.cpus) - outcome.server_cpu - (outcome.clients_cpu or 0.0)) / len(outcome.cpus)
            for outcome in (run.outcome for run in self.runs)
            if outcome.cpus and outcome.server_cpu is not None
        ]
        return max(0.0, median(parts)) if parts else 0.0

    def memory(self) -> Mapping[Setting, float]:
        """The most memory of each setting that was measured, in bytes."""
        found: dict[Setting, float] = {}
        for run in self.runs:
            if run.outcome.memory:
                setting = run.variant.setting
                found[setting] = max(found.get(setting, 0.0), run.outcome.memory)
        return found


def describe_nothing_within(evidence: Evidence) -> str:
    """Why each variant is out, and what to do."""
    reasons = "; ".join(f"{variant.name}: {evidence.fault(variant)}" for variant in evidence.variants)
    return f"No setting that was run is within the limits. {reasons}. Raise the limit, or lower the load."
