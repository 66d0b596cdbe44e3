"""`python -m app.lab` (`make lab`): runs the published experiments again and prints a report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from app.lab import flask_steps, processes, published, uneven_workers, wsgi_servers
from app.lab.experiment import Experiment, Length, Progress, Results, Section, render_table, run_series
from app.lab.figures import DISTURBED, Finding, Runs, other_cpus
from app.lab.programs import Machine, Programs, describe_machine, find_programs, keep_machine, kept_machine, mask_file
from app.lab.results import Outcome, open_results
from app.lab.run import Planned, run_once
from tools import environments
from tools.commands import CommandError
from tools.environments import ROOT, SetupError
from uwsgi_headroom.errors import HeadroomError

EXPERIMENTS = (
    flask_steps.EXPERIMENT,
    processes.EXPERIMENT,
    uneven_workers.EXPERIMENT,
    wsgi_servers.EXPERIMENT,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs from the command line. Returns the exit status: 130 after Ctrl-C, 1 if it cannot go on."""
    options = _parse(argv)
    length = Length(full=options.full)
    results: Path = options.results / ("full" if options.full else "short")
    chosen = [experiment for experiment in EXPERIMENTS if not options.only or experiment.key in options.only]
    try:
        if not options.report:
            if options.again:
                _forget(results, chosen)
            programs = find_programs(environments.uwsgi_for_tests(), results)
            measure(chosen, programs, _describe(programs), length)
        report = make_report(results, length)
    except KeyboardInterrupt:
        print(f"\nStopped. Complete runs are kept in {_shorten(results)}. The same command continues after them.")
        return 130
    except (HeadroomError, SetupError, CommandError, OSError) as error:
        print(f"\nmake lab: {error}\nComplete runs are kept in {_shorten(results)}.", file=sys.stderr)
        return 1
    print(f"\n{report}")
    return 0


def measure(chosen: Sequence[Experiment], programs: Programs, machine: Machine, length: Length) -> None:
    """Runs what is not in the results yet. Raises HeadroomError, OSError, KeyboardInterrupt."""
    files = [(experiment, results_file(programs.results, experiment.key)) for experiment in chosen]
    plans = {file: experiment.plan(programs, machine, length) for experiment, file in files}
    progress = Progress(plans)
    run = partial(run_undisturbed, run=partial(run_once, say=progress.say))
    for experiment, file in files:
        progress.begin(f"{experiment.key}, {experiment.title}", file)
        run_series(plans[file], file, progress.say, run=run)


def run_undisturbed(planned: Planned, run: Callable[[Planned], Outcome] = run_once) -> Outcome:
    """Runs once more if other programs took CPU; returns the run that they disturbed less."""
    first = run(planned)
    if (other_cpus(first) or 0.0) <= DISTURBED:
        return first
    second = run(planned)
    return second if second.answers and (other_cpus(second) or 0.0) < (other_cpus(first) or 0.0) else first


def make_report(results: Path, length: Length) -> str:
    """The report on all results, also of experiments that ran before. Raises HeadroomError, OSError."""
    outcomes = {}
    for experiment in EXPERIMENTS:
        with open_results(results_file(results, experiment.key)) as file:
            outcomes[experiment.key] = [line.outcome for line in file.found]
    return render(EXPERIMENTS, outcomes, kept_machine(results), results, length)


def results_file(results: Path, key: str) -> Path:
    """The file of an experiment's outcomes."""
    return results / f"{key}.jsonl"


def _describe(programs: Programs) -> Machine:
    """Describes the machine, and keeps it with the results. The n of E2 stays what earlier runs had."""
    (programs.results / "masks").mkdir(parents=True, exist_ok=True)
    try:
        n = kept_machine(programs.results).fib_n
    except (OSError, ValueError, TypeError):
        n = 0
    machine = describe_machine(programs, n)
    keep_machine(programs.results, machine)
    return machine


def _forget(results: Path, chosen: Sequence[Experiment]) -> None:
    for experiment in chosen:
        results_file(results, experiment.key).unlink(missing_ok=True)
        for file in mask_file(results, experiment.key, "").parent.glob(f"{experiment.key}-*"):
            file.unlink()


def _shorten(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    keys = [experiment.key for experiment in EXPERIMENTS]
    parser = argparse.ArgumentParser(prog="python -m app.lab", description=__doc__)
    parser.add_argument("--only", action="append", choices=keys, help="run this experiment only; repeatable")
    parser.add_argument("--full", action="store_true", help="all loads and steps, more and longer repetitions: hours")
    parser.add_argument("--again", action="store_true", help="forget earlier results of the chosen experiments")
    parser.add_argument("--report", action="store_true", help="run nothing; print the report on earlier results")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "lab", metavar="DIRECTORY", help="of results")
    return parser.parse_args(argv)


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
    """The report. outcomes: of each experiment, by its key; an experiment without is not reported. directory:
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


if __name__ == "__main__":
    sys.exit(main())
