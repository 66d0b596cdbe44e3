"""Runs `tune`: asks, measures what the search wants to know, and writes the recommendation."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from uwsgi_headroom import logs
from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.terminal_text import print_lines, wrap
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.results import Line, Outcome, ResultsFile, fingerprint, open_results
from uwsgi_headroom.tune.experiment.run import Planned, run_once
from uwsgi_headroom.tune.finish import MEASURED, RUNS, WIDTH, OutputDirectory, finish, open_output, render_table
from uwsgi_headroom.tune.plan import BACKENDS, Plan, make_plan
from uwsgi_headroom.tune.request import TuneRequest
from uwsgi_headroom.tune.search.candidates import predict_scores
from uwsgi_headroom.tune.search.evidence import Evidence
from uwsgi_headroom.tune.search.search import search
from uwsgi_headroom.words.formats import duration

RECOMMENDED, NOTHING = 0, 1


def run(request: TuneRequest, run_planned: Callable[[Planned], Outcome] | None = None) -> int:
    """Run `tune` and return its exit status: 0 with a recommendation, 1 without one. Raises ConfigError if an option is
    wrong, and HeadroomError if the application does not run or nothing can be written.

    run_planned: in place of `run_once`.
    """
    logs.configure("critical", "logfmt")  # messages report errors
    try:
        return _run(request, run_planned or partial(run_once, say=_say))
    except KeyboardInterrupt:
        _say("Interrupted.")
        return NOTHING


def _run(request: TuneRequest, run_planned: Callable[[Planned], Outcome]) -> int:
    plan = make_plan(request)
    _say(*plan.list_lines(), BACKENDS)
    if not _is_confirmed(request.yes):
        _say("Nothing was started.")
        return NOTHING
    output = open_output(request.output)
    output.write(MEASURED, plan.application.text)
    evidence = Evidence(plan.limits)
    try:
        chosen = _search(plan, evidence, output, run_planned)
        lines = finish(chosen, plan, evidence, output)
    except KeyboardInterrupt:
        _sum_up(evidence, output)
        raise
    except OSError as error:
        raise HeadroomError(
            f"{output.path} cannot be written: {error.strerror or error}", _list_table(evidence)
        ) from None
    except HeadroomError as error:
        raise HeadroomError(str(error), [*error.details, *_list_table(evidence)]) from None
    print_lines(lines)
    return RECOMMENDED


def _search(
    plan: Plan, evidence: Evidence, output: OutputDirectory, run_planned: Callable[[Planned], Outcome]
) -> Variant:
    predict = partial(predict_scores, load=plan.task.load, cpus=plan.task.cpus)
    with open_results(output.path / RUNS) as results:
        measurer = _Measurer(plan, output.path / MEASURED, results, run_planned)
        return search(plan.task, measurer.measure, predict, evidence)


class _Measurer:
    """Runs variants one after the other, and says how far it is. A run that is in `results` already, of the same
    application and load, is not repeated: an interrupted search then goes on where it was."""

    def __init__(
        self, plan: Plan, measured: Path, results: ResultsFile, run_planned: Callable[[Planned], Outcome]
    ) -> None:
        self._application, self._task, self._measured = plan.application, plan.task, measured
        self._results, self._run_planned = results, run_planned
        digest = hashlib.sha256(plan.application.text.encode(errors="surrogateescape")).hexdigest()
        self._label = f"tune {digest[:8]}"
        self._found = {line.key: line for line in results.found if line.outcome.error is None}
        self._count = 0

    def measure(self, variant: Variant, number: int) -> Outcome:
        """The outcome of a variant in a round. Raises OSError, ResultsError if the disk is full, KeyboardInterrupt."""
        setup = self._application.make_setup(variant, self._measured)
        planned = Planned(setup, self._task.load, self._label, number)
        print_of_run = fingerprint(planned.setup, planned.load)
        self._count += 1
        place = f"Run {self._count} of at most {self._task.most_runs}: {variant.name}"
        kept = self._found.get((variant.name, self._label, number))
        if kept is not None and kept.run == print_of_run:
            _say(f"{place}: measured before: {kept.outcome.sum_up()}")
            return kept.outcome
        left = planned.seconds * (self._task.most_runs - self._count + 1)
        _say(f"{place} (at most {duration(left)} left)")
        outcome = self._run_planned(planned)
        self._results.append(Line(run=print_of_run, outcome=outcome))
        _say(f" {outcome.sum_up()}")
        return outcome


def _is_confirmed(yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError("give --yes to start without a question, once you have checked which backends are used")
    print("Start? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _sum_up(evidence: Evidence, output: OutputDirectory) -> None:
    """Print what an interrupted search has found."""
    if not evidence.runs:
        _say("No run was complete.")
        return
    print_lines(["", *_list_table(evidence)], sys.stderr)
    _say(f"There is no recommendation yet. The same command with --output {output.path} goes on from here.")


def _list_table(evidence: Evidence) -> list[str]:
    return render_table(evidence, None) if any(run.outcome.answers for run in evidence.runs) else []


def _say(*sentences: str) -> None:
    for sentence in sentences:
        indent = "  " if sentence.startswith(" ") else ""
        print_lines(wrap(sentence, WIDTH, indent, indent), sys.stderr)
