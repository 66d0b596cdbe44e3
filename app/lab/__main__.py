"""`python -m app.lab` (`make lab`): runs the published experiments again and prints a report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from app.lab import document, flask_steps, processes, uneven_workers, wsgi_servers
from app.lab.experiment import Experiment, Length
from app.lab.figures import DISTURBED, other_cpus
from app.lab.programs import Machine, Programs, describe_machine, find_programs, keep_machine, kept_machine, mask_file
from app.lab.progress import Progress
from app.lab.results import Outcome, open_results
from app.lab.run import Planned, run_once
from app.lab.series import run_series
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
    """Returns the report on all results, also of experiments that ran before. Raises HeadroomError, OSError."""
    outcomes = {}
    for experiment in EXPERIMENTS:
        with open_results(results_file(results, experiment.key)) as file:
            outcomes[experiment.key] = [line.outcome for line in file.found]
    return document.render(EXPERIMENTS, outcomes, kept_machine(results), results, length)


def results_file(results: Path, key: str) -> Path:
    """Returns the file of an experiment's outcomes."""
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


if __name__ == "__main__":
    sys.exit(main())
