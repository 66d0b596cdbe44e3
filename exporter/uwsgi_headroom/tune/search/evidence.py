"""Holds what a search has to do, and what it has measured and decided so far, in order.

Here is what a variant must keep to, and what makes one better than another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, fsum, inf, log, sqrt
from statistics import median

from uwsgi_headroom.analysis.what_if import Setting
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.results import Outcome
from uwsgi_headroom.tune.loads.load_tools import Answers, Load
from uwsgi_headroom.words.formats import byte_size, duration, figure, percent

USUAL = 0.03
"""The relative spread (standard deviation) of the difference of two runs on a quiet machine."""

OTHERS = 0.2
"""How much more that is if other programs use all CPUs; in proportion if they use a part."""

USUAL_COUNT = 2
"""The number of differences for which the usual spread counts."""

LEAST_MARGIN = 0.02
"""Nobody acts on a smaller difference."""

_QUANTILES = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76, 1.75)
"""Student's t, 95 %, one-sided, for 1 degree of freedom and more."""

Scores = Mapping[str, Mapping[int, float]]
"""The scores of each variant, by round."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two variants differ over their common rounds.

    Only runs of the same round are compared, because they follow each other closely: what else the machine does then
    matters less. The spread of these differences is pooled over all pairs of variants. As there are few, it is combined
    with a usual spread, which counts as much as two differences and is larger beside busy programs (an empirical Bayes
    estimate: G. K. Smyth, Statistical Applications in Genetics and Molecular Biology 3 (1), 2004).
    """

    ratio: float
    """The first score divided by the second: a geometric mean."""
    margin: float
    """The difference that noise explains with 95 % confidence, as a logarithm of a ratio."""
    rounds: int

    @property
    def explained(self) -> float:
        """The relative difference that noise explains, in the direction of `ratio`: a ratio is beyond the noise if it
        differs from 1 by more."""
        return exp(self.margin) - 1 if self.ratio >= 1 else 1 - exp(-self.margin)

    @property
    def is_better(self) -> bool:
        """Whether the first is better, beyond the noise."""
        return log(self.ratio) > self.margin

    @property
    def is_worse(self) -> bool:
        """Whether the first is worse, beyond the noise."""
        return log(self.ratio) < -self.margin


def compare(first: str, second: str, scores: Scores, usual: float = USUAL) -> Comparison | None:
    """Compare two variants; None if they were never measured in the same round. usual: the spread that is expected
    before anything was repeated."""
    differences = list_differences(first, second, scores)
    if not differences:
        return None
    spread, freedom = find_spread(scores, usual)
    quantile = _QUANTILES[min(freedom, len(_QUANTILES)) - 1]
    margin = max(LEAST_MARGIN, quantile * spread / sqrt(len(differences)))
    return Comparison(exp(fsum(differences) / len(differences)), margin, len(differences))


def find_usual(other_programs: float) -> float:
    """The spread to expect. other_programs: the part of all CPUs that other programs use, 0 to 1."""
    return USUAL + OTHERS * min(1.0, max(0.0, other_programs))


def find_spread(scores: Scores, usual: float = USUAL) -> tuple[float, int]:
    """The relative standard deviation of the difference of two runs, and its degrees of freedom."""
    squares, freedom = USUAL_COUNT * usual**2, USUAL_COUNT
    if scores:
        # Differences to one variant: pairs of all would count each run several times.
        common = max(scores, key=lambda name: len(scores[name]))
        for name in scores:
            differences = list_differences(name, common, scores) if name != common else []
            if differences:
                mean = fsum(differences) / len(differences)
                squares += fsum((difference - mean) ** 2 for difference in differences)
                freedom += len(differences) - 1
    return sqrt(squares / freedom), freedom


def list_differences(first: str, second: str, scores: Scores) -> list[float]:
    """The logarithms of the ratios of the scores, for each common round."""
    ours, theirs = scores.get(first, {}), scores.get(second, {})
    return [log(ours[number] / theirs[number]) for number in sorted(ours) if number in theirs]


DEFAULT_QUEUE_LIMIT = 4096
"""net.core.somaxconn since Linux 5.4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    present: Variant
    load: Load
    cpus: float
    """That the server may use."""
    most_runs: int
    longest_queue: int = DEFAULT_QUEUE_LIMIT
    """The kernel's limit of `listen`."""


SUSTAINED = 0.95
"""The part of the rate that a variant has to answer."""

MORE_ERRORS = 0.01
"""A variant may fail this part of the requests more often than the present one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a variant must keep to. None: no limit."""

    memory: float | None = None
    """Bytes of all processes together."""
    p99: float | None = None
    """Seconds, as the clients see them."""
    rate: float = 0.0
    """Requests per second that arrive; 0 in a closed loop."""
    failed: float = 0.0
    """The part of the requests that fails in the present variant."""


def find_score(outcome: Outcome, limits: Limits) -> float | None:
    """How good an outcome is: in a closed loop, answers per second; at a rate, 1 / the mean response time in seconds.
    None: nothing was answered."""
    answers = outcome.answers
    if answers is None or not answers.answered:
        return None
    if not limits.rate:
        return answers.throughput
    return 1 / answers.mean if answers.mean else None


def find_fault(outcome: Outcome, limits: Limits) -> str | None:
    """Why an outcome is beyond the limits, as the second half of a sentence; None if it is within all of them."""
    answers = outcome.answers
    if answers is None:
        return f"it did not run: {summarise_error(outcome)}"
    if not answers.answered:
        return f"no request was answered{describe_errors(answers.errors)}"
    faults = (
        (
            find_failed(answers) > limits.failed + MORE_ERRORS,
            f"{percent(find_failed(answers))} of the requests failed{describe_errors(answers.errors)}",
        ),
        (
            answers.throughput < SUSTAINED * limits.rate,
            f"it answered {figure(answers.throughput)} of {figure(limits.rate, 6)} requests/s",
        ),
        (
            (outcome.memory or 0) > (limits.memory or inf),
            f"it took {byte_size(outcome.memory or 0)} of memory, and {byte_size(limits.memory or 0)} are allowed",
        ),
        (
            (answers.p99 or 0) > (limits.p99 or inf),
            f"its p99 was {duration(answers.p99 or 0)}, and {duration(limits.p99 or 0)} are allowed",
        ),
    )
    return next((sentence for applies, sentence in faults if applies), None)


def summarise_error(outcome: Outcome) -> str:
    """Why a run has no result, without the end of the server's log, which follows in further lines."""
    first, *_ = (outcome.error or "the reason is not known").splitlines()
    return first.rstrip(".:")


def find_failed(answers: Answers) -> float:
    """The part of the requests that failed, 0 to 1."""
    errors = sum(answers.errors.values())
    return errors / (errors + answers.answered) if errors else 0.0


def describe_errors(errors: Mapping[str, int]) -> str:
    """The kinds of errors, most frequent first: ` (status 500: 12, timeout: 3)`."""
    if not errors:
        return ""
    kinds = sorted(errors.items(), key=lambda kind: (-kind[1], kind[0]))
    return f" ({', '.join(f'{name}: {count:,}' for name, count in kinds)})"


@dataclass(frozen=True, slots=True)
class Run:
    variant: Variant
    number: int
    """Of the round, from 0."""
    outcome: Outcome


@dataclass(slots=True)
class Evidence:
    """Filled by the search, so that an interrupted search leaves what it found."""

    limits: Limits = field(default_factory=Limits)
    runs: list[Run] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    """One sentence each."""

    def add(self, variant: Variant, number: int, outcome: Outcome) -> None:
        self.runs.append(Run(variant, number, outcome))

    def decide(self, sentence: str) -> None:
        self.decisions.append(sentence)

    @property
    def variants(self) -> list[Variant]:
        """Each variant that was run, in the order of the first runs."""
        return list(dict.fromkeys(run.variant for run in self.runs))

    def of(self, variant: Variant) -> list[Outcome]:
        return [run.outcome for run in self.runs if run.variant == variant]

    def fault(self, variant: Variant) -> str | None:
        """Why a variant is out, in its first run that shows it; None if it is within the limits."""
        faults = (find_fault(outcome, self.limits) for outcome in self.of(variant))
        return next((fault for fault in faults if fault), None)

    def scores(self) -> Scores:
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
        return compare(first.name, second.name, self.scores(), find_usual(self.other_programs()))

    def other_programs(self) -> float:
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


class CannotTuneError(HeadroomError):
    """The search has no result; the message is a sentence that says why and what to do."""


def describe_nothing_within(evidence: Evidence) -> str:
    """Why each variant is out, and what to do."""
    reasons = "; ".join(f"{variant.name}: {evidence.fault(variant)}" for variant in evidence.variants)
    return f"No setting that was run is within the limits. {reasons}. Raise the limit, or lower the load."
