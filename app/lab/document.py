"""The report of the lab, as Markdown, from the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from app.lab import published
from app.lab.experiment import Experiment, Length, Results, Section, render_table
from app.lab.figures import DISTURBED, Finding, Runs, other_cpus
from app.lab.programs import Machine
from app.lab.results import Outcome

WORDS = {"agrees": "Agrees", "differs": "Differs", "open": "Open", "beside": "Not published"}

_BEGIN = """\
# The lab

Five published write-ups, which this project grew from, measured again on one machine with the exporter watching.
Absolute numbers belong to their machines. The question is whether the *shape* comes back: what helped, by what ratio.

A figure is the median of the repetitions, with their range in parentheses. A difference counts only if the ranges do
not overlap: two repetitions show large effects, and leave small ones open. **Agrees**: the published shape or claim
came back. **Differs**: it did not. **Open**: these runs do not decide it. **Not published**: what this lab adds."""


def render(
    experiments: Sequence[Experiment],
    outcomes: Mapping[str, Sequence[Outcome]],
    machine: Machine,
    directory: Path,
    length: Length,
) -> str:
    """Returns the report. outcomes: of each experiment, by its key; an experiment without is not reported. directory:
    of the results."""
    sections = {
        experiment.key: experiment.report(
            Results(runs=Runs(outcomes[experiment.key]), machine=machine, directory=directory)
        )
        for experiment in experiments
        if outcomes.get(experiment.key)
    }
    titles = {experiment.key: experiment.title for experiment in experiments}
    return "\n".join(_page(sections, titles, outcomes, machine, length)).rstrip() + "\n"


def _page(
    sections: Mapping[str, Section],
    titles: Mapping[str, str],
    outcomes: Mapping[str, Sequence[Outcome]],
    machine: Machine,
    length: Length,
) -> Iterator[str]:
    yield _BEGIN
    yield from ["", _measured(outcomes, machine, length), "", "## What came back"]
    for key, section in sections.items():
        yield from ["", f"**{key}, {titles[key]}**", "", *_summary(section.findings)]
    for key, section in sections.items():
        yield from ["", f"## {key}: {titles[key]}", "", *section.lines, "", _beside(outcomes[key]), ""]
        yield from (f"* **{WORDS[found.verdict]}**: {found.subject}. {found.text}" for found in section.findings)
    yield from ["", "## Every published experiment", "", *_listed(sections)]
    yield from ["", "## Versions", "", *_versions(machine)]


def _measured(outcomes: Mapping[str, Sequence[Outcome]], machine: Machine, length: Length) -> str:
    runs = [run for series in outcomes.values() for run in series]
    failed = sum(run.answers is None for run in runs)
    return (
        f"{len(runs)} runs of the {'full' if length.full else 'short'} lab, {failed} of them without a"
        f" result, on {machine.cpus} CPUs, {machine.system}, {machine.python}. A run in which the kernel dropped"
        " packets, because its table of tracked connections was full, was repeated once, when there was room again."
    )


def _beside(runs: Sequence[Outcome]) -> str:
    """Says how often an experiment was repeated, and what other programs did meanwhile."""
    text = f"{1 + max(run.number for run in runs)} repetitions of {_seconds(runs)} s."
    others = sorted(used for run in runs if (used := other_cpus(run)) is not None)
    if others:
        text += (
            f" Other programs, the exporter's sampling included, used {median(others):.2f} CPUs in the median run, and"
            f" {others[-1]:.2f} in the worst. A run with more than {DISTURBED:g} is repeated once."
        )
    return text


def _seconds(runs: Sequence[Outcome]) -> str:
    """Returns how long the loads took."""
    taken = [round(run.answers.seconds) for run in runs if run.answers]
    return f"{median(taken):g}" if taken else "0"


def _summary(findings: Sequence[Finding]) -> Iterator[str]:
    """Yields a line for each verdict, with the subjects."""
    for verdict, word in WORDS.items():
        subjects = [finding.subject for finding in findings if finding.verdict == verdict]
        if subjects:
            yield f"* {word}: {'; '.join(subjects)}."


def _listed(sections: Mapping[str, Section]) -> list[str]:
    rows = []
    for experiment in published.EXPERIMENTS:
        run, where = experiment.run, experiment.where
        if run and experiment.key not in sections:
            run, where = False, f'not in this report: `make lab ARGS="--only {experiment.key}"`'
        rows.append([experiment.key, experiment.name, "yes" if run else "no", where])
    return render_table(["", "published", "run", "how, or why not"], rows)


def _versions(machine: Machine) -> list[str]:
    lines = [", ".join(f"{name} {version}" for name, version in machine.versions.items()) + "."]
    if machine.missing:
        lines += ["", "Missing, and left out:", ""]
        lines += [f"* {name}: {reason}." for name, reason in machine.missing.items()]
    return lines
