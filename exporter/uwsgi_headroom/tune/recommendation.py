"""Puts what a search found into words: the recommendation, its reasons and its cautions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.results import Outcome
from uwsgi_headroom.tune.loads.load_tools import Load
from uwsgi_headroom.tune.search.candidates import predict_most
from uwsgi_headroom.tune.search.evidence import Evidence
from uwsgi_headroom.words.formats import byte_size, counted, duration, factor, figure, fine_percent, percent
from uwsgi_headroom.words.states import LIMITS

BUSY_OTHERS = 0.25
"""CPUs that programs other than the server and its clients use, from which on a sentence says so."""

UNSUCCESSFUL = 0.1
"""The part of the answers that are redirects or errors from which on a sentence says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The result of a search, in sentences."""

    chosen: Variant
    present: Variant
    headline: str
    """What to do."""
    reasons: tuple[str, ...]
    """The evidence in short, then the headroom."""
    cautions: tuple[str, ...]
    """What the result depends on."""

    @property
    def changes(self) -> bool:
        """Whether the chosen variant is another one than the present."""
        return self.chosen != self.present


def recommend(
    chosen: Variant, evidence: Evidence, load: Load, cpus: float, *, has_ini: bool, off: Sequence[str]
) -> Recommendation:
    """Put the result of a search into words. off: what was left out of the ini file."""
    present = evidence.variants[0]
    headline, reason = _describe_choice(chosen, present, evidence, load, has_ini)
    headroom = _describe_headroom(chosen, present, evidence, load, cpus)
    return Recommendation(
        chosen=chosen,
        present=present,
        headline=headline,
        reasons=tuple(
            sentence
            for sentence in (
                reason,
                _warn_of_one_process(chosen, evidence),
                _describe_needs(chosen, present, evidence),
                headroom,
            )
            if sentence
        ),
        cautions=tuple(_list_cautions(chosen, evidence, load, cpus, off)),
    )


def _describe_choice(
    chosen: Variant, present: Variant, evidence: Evidence, load: Load, has_ini: bool
) -> tuple[str, str | None]:
    if chosen == present:
        return (
            f"Keep {present.name}: of {counted(len(evidence.variants), 'setting')}, none was better beyond the noise.",
            None,
        )
    headline = f"Use {chosen.name} instead of {present.name}." if has_ini else f"Use {chosen.name}."
    fault = evidence.fault(present)
    if fault:
        return headline, f"{present.name} is beyond the limits: {fault}."
    comparison = evidence.compare(chosen, present)
    if comparison is None:
        return headline, None
    paired = _list_paired(chosen, present, evidence)
    ours, theirs = (_describe_speed(outcomes, load) for outcomes in paired)
    rounds = len(paired[0])
    if rounds < max(len(evidence.of(chosen)), len(evidence.of(present))):
        theirs += f" in the {'round' if rounds == 1 else f'{rounds} rounds'} that both had"
    margin = percent(comparison.explained)
    if comparison.is_better:
        gain = f"{percent(comparison.ratio - 1)} better; noise explains {margin}"
        return headline, f"It reached {ours} instead of {theirs} ({gain})."
    difference = f"{fine_percent(abs(comparison.ratio - 1))} {'better' if comparison.ratio >= 1 else 'worse'}"
    return headline, f"It reached {ours} instead of {theirs} ({difference}, inside the noise, which explains {margin})."


def _list_paired(first: Variant, second: Variant, evidence: Evidence) -> tuple[list[Outcome], list[Outcome]]:
    """The outcomes of two variants in the rounds that both have: those that were compared."""
    numbers = [{run.number for run in evidence.runs if run.variant == variant} for variant in (first, second)]
    common = numbers[0] & numbers[1]
    ours, theirs = (
        [run.outcome for run in evidence.runs if run.variant == variant and run.number in common]
        for variant in (first, second)
    )
    return ours, theirs


def _describe_speed(outcomes: Sequence[Outcome], load: Load) -> str:
    answers = [outcome.answers for outcome in outcomes if outcome.answers]
    if load.rate:
        return f"a mean response time of {duration(median([found.mean or 0.0 for found in answers]))}"
    return f"{figure(median([found.throughput for found in answers]))} requests/s"


def _describe_needs(chosen: Variant, present: Variant, evidence: Evidence) -> str | None:
    """Threads and memory, against the present variant."""
    memory = evidence.memory()
    ours, theirs = memory.get(chosen.setting), memory.get(present.setting)
    if chosen.setting == present.setting:
        return None
    ours_in_all, theirs_in_all = chosen.setting.in_all, present.setting.in_all
    threads = f"{counted(ours_in_all, 'thread')} in all"
    before = f", instead of {theirs_in_all}" if ours_in_all != theirs_in_all else f", as {present.setting} has"
    if ours is None or theirs is None:
        return f"{chosen.name} has {threads}{before}."
    return f"{chosen.name} has {threads}{before}, and took {byte_size(ours)} of memory, instead of {byte_size(theirs)}."


def _warn_of_one_process(chosen: Variant, evidence: Evidence) -> str | None:
    """What a single process costs, and what two or more would cost instead; None if there are more."""
    if chosen.setting.processes > 1:
        return None
    several = [variant for variant in evidence.variants if variant.setting.processes > 1]
    found = [(evidence.compare(variant, chosen), variant) for variant in several if not evidence.fault(variant)]
    known = [(comparison.ratio, variant) for comparison, variant in found if comparison]
    ratio, best = max(known, key=lambda pair: pair[0], default=(0.0, None))
    instead = "run tune with two processes in the ini file to see what two processes would cost"
    if best is not None:
        instead = f"the best setting with more processes, {best.name}, was {fine_percent(max(0.0, 1 - ratio))} worse"
    return (
        f"{chosen.name} is a single process: while it restarts (after a crash, a reload, harakiri or max-requests), "
        "requests wait, and a crash loses all requests in service. Two or more processes are safer: "
        f"{instead}."
    )


def _describe_headroom(chosen: Variant, present: Variant, evidence: Evidence, load: Load, cpus: float) -> str | None:
    """The model's most throughput of the chosen variant, as a multiple of the load."""
    outcome = next((outcome for outcome in reversed(evidence.of(chosen)) if outcome.observed), None)
    found = predict_most(chosen.setting, outcome, load, cpus) if outcome else None
    if found is None:
        return None
    most, limit = found
    base = evidence.of(present)[0].answers
    at = load.rate or (base.throughput if base else 0.0)
    if not at:
        return None
    of = "the load that was applied" if load.rate else f"what {present.name} answered in its first run"
    return (
        f"Predicted headroom: {factor(most / at)} at {figure(at)} requests/s, {of}. "
        f"At about {figure(most)} requests/s, {LIMITS[limit].outcome}."
    )


def _list_cautions(chosen: Variant, evidence: Evidence, load: Load, cpus: float, off: Sequence[str]) -> Iterator[str]:
    """What the result depends on, as sentences."""
    present = evidence.variants[0]
    if present.setting.threads == 1 and chosen.setting.threads > 1:
        yield (
            f"{present.name} has one thread in each process, and {chosen.name} has several: the application, and all "
            "libraries that it uses, must be safe to run in several threads. This load does not prove that."
        )
    outcomes = [run.outcome for run in evidence.runs if run.outcome.answers]
    yield from _warn_of_statuses(outcomes)
    yield f"Measured with {_count_cpus(cpus)}. On a machine with another number of CPUs, run tune again."
    clients = [outcome.clients_cpu for outcome in outcomes if outcome.clients_cpu is not None]
    if clients:
        yield f"The clients ran on the same machine and took {median(clients):.2f} CPUs, which the server did not have."
    others = cpus * evidence.other_programs()
    if others > BUSY_OTHERS:
        yield f"During the runs, other programs used {others:.1f} CPUs. Run tune again while the machine is quiet."
    if load.clients:
        yield (
            f"The load was {counted(load.clients, 'client')}. Each client waits for an answer, then sends the next "
            "request at once. With more clients, more threads may help."
        )
    yield (
        "The requests went straight to uWSGI on loopback: no proxy in front, and no slow clients. Backends answered as "
        "fast as they do now."
    )
    if off:
        yield f"During the runs, tune left out these lines of the ini file: {'; '.join(off)}."


def _warn_of_statuses(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Redirects and errors are answered faster than pages, so they measure something else."""
    statuses: Counter[int] = Counter()
    answered = 0
    for outcome in outcomes:
        if outcome.answers:
            answered += outcome.answers.answered
            statuses.update(outcome.answers.statuses)
    part = statuses.total() / answered if answered else 0.0
    if part >= UNSUCCESSFUL:
        named = ", ".join(f"{status}: {count:,}" for status, count in statuses.most_common())
        yield (
            f"{percent(part)} of the answers were redirects or errors (status {named}): check that this load is the "
            "one that you want to measure."
        )


def _count_cpus(cpus: float) -> str:
    return counted(round(cpus), "CPU") if cpus == round(cpus) else f"{cpus:.1f} CPUs"
