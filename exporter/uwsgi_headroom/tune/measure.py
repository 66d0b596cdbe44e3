"""Measures variants one after the other, says how far it is, and keeps each outcome in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from uwsgi_headroom.tune.application.application import Application
from uwsgi_headroom.tune.application.variant import Variant
from uwsgi_headroom.tune.experiment.results import Line, Outcome, ResultsFile, fingerprint
from uwsgi_headroom.tune.experiment.run import Planned, run_once
from uwsgi_headroom.tune.loads.load import Load
from uwsgi_headroom.words.formats import duration


class Measurer:
    """Runs variants of an application under a load. A run that is in `results` already, of the same application and
    load, is not repeated: an interrupted search then goes on where it was."""

    def __init__(
        self,
        application: Application,
        load: Load,
        measured: Path,
        results: ResultsFile,
        *,
        most_runs: int,
        say: Callable[[str], None],
        run: Callable[[Planned], Outcome] = run_once,
    ) -> None:
        self._application, self._load, self._measured = application, load, measured
        self._results, self._most_runs, self._say, self._run = results, most_runs, say, run
        digest = hashlib.sha256(application.text.encode(errors="surrogateescape")).hexdigest()
        self._label = f"tune {digest[:8]}"
        self._found = {line.key: line for line in results.found if line.outcome.error is None}
        self._count = 0

    def measure(self, variant: Variant, number: int) -> Outcome:
        """The outcome of a variant in a round. Raises OSError, ResultsError if the disk is full, KeyboardInterrupt."""
        planned = Planned(self._application.make_setup(variant, self._measured), self._load, self._label, number)
        print_of_run = fingerprint(planned.setup, planned.load)
        self._count += 1
        place = f"Run {self._count} of at most {self._most_runs}: {variant.name}"
        kept = self._found.get((variant.name, self._label, number))
        if kept is not None and kept.run == print_of_run:
            self._say(f"{place}: measured before: {kept.outcome.sum_up()}")
            return kept.outcome
        left = planned.seconds * (self._most_runs - self._count + 1)
        self._say(f"{place} (at most {duration(left)} left)")
        outcome = self._run(planned)
        self._results.append(Line(run=print_of_run, outcome=outcome))
        self._say(f" {outcome.sum_up()}")
        return outcome
