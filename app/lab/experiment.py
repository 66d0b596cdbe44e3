"""An experiment of the lab: the runs that it plans, kept so that it can be continued, and what it reports of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.lab.clients import Load
from app.lab.figures import Figure, Finding, Runs
from app.lab.programs import Machine, Programs
from app.lab.results import (
    Key,
    Line,
    Outcome,
    ResultsError,
    ResultsFile,
    Setup,
    Spread,
    fingerprint,
    open_results,
)
from app.lab.run import Planned, run_once
from uwsgi_headroom.words.formats import duration

NONE = "-"
"""In a table: not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How much is measured. full: all loads, and more repetitions of a longer time."""

    full: bool = False

    @property
    def repetitions(self) -> int:
        return 4 if self.full else 2

    def seconds(self, short: float, full: float = 15.0) -> float:
        return full if self.full else short


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The part of the report about one experiment."""

    lines: Sequence[str]
    findings: Sequence[Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What an experiment reports of. directory: of the results."""

    runs: Runs
    machine: Machine
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A published experiment. key: such as E1, which also begins the names of its loads."""

    key: str
    title: str
    plan: Callable[[Programs, Machine, Length], list[Planned]]
    report: Callable[[Results], Section]


def plan_runs(key: str, setups: Sequence[Setup], loads: dict[str, Load], repetitions: int) -> list[Planned]:
    """The runs in the order A B A B; the name of each load begins with the experiment's key."""
    return interleave(setups, {load_label(key, name): load for name, load in loads.items()}, repetitions)


def load_label(key: str, name: str) -> str:
    return f"{key}: {name}"


def render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns a table in Markdown, as lines."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def show(found: Spread | None, digits: int = 0, suffix: str = "") -> str:
    """Returns a figure with the range of its repetitions."""
    if found is None:
        return NONE
    if found.number == 1 or found.low == found.high:
        return f"{found.median:,.{digits}f}{suffix}"
    return f"{found.median:,.{digits}f}{suffix} ({found.low:,.{digits}f} to {found.high:,.{digits}f})"


def show_share(found: Spread | None) -> str:
    """Returns a part of 1 in percent."""
    if found is None:
        return NONE
    return show(Spread(100 * found.median, 100 * found.low, 100 * found.high, found.number), 0, " %")


def spreads(runs: Runs, setups: Iterable[str], load: str, figure: Figure) -> dict[str, Spread]:
    """The figure of each setup that has it."""
    found = {name: runs.spread(name, load, figure) for name in setups}
    return {name: value for name, value in found.items() if value is not None}


def failures(runs: Runs, setups: Iterable[str], load: str) -> list[str]:
    """Returns a line for each setup whose runs all failed."""
    errors = {name: runs.error(name, load) for name in setups}
    return [f"* {name}: no result. {error.splitlines()[0]}" for name, error in errors.items() if error]


def interleave(setups: Sequence[Setup], loads: Mapping[str, Load], repetitions: int) -> list[Planned]:
    """Plan all setups under all loads (by label), then again: A B A B. So a slow change of the machine meets all alike.

    Raises ValueError if two setups have one name.
    """
    if len({setup.name for setup in setups}) < len(setups):
        raise ValueError("two setups have the same name")
    return [
        Planned(setup, load, label, number)
        for number in range(repetitions)
        for label, load in loads.items()
        for setup in setups
    ]


def run_series(
    plan: Sequence[Planned],
    results: Path,
    say: Callable[[str], None],
    run: Callable[[Planned], Outcome] = run_once,
) -> list[Outcome]:
    """Run what is planned and return the outcomes in the order of the plan.

    results: a file to which each outcome is appended as a line of JSON. Runs that it has already are not repeated, so
    a series that was interrupted continues; a plan may also grow. say: receives a line for each run, with the time
    left. Raises `ResultsError` if the file belongs to another plan, or cannot be written; KeyboardInterrupt.
    """
    with open_results(results) as file:
        outcomes = _find_outcomes(plan, file, results)
        left = [planned for planned in plan if _key(planned) not in outcomes]
        if outcomes:
            say(f"{len(outcomes)} of {len(plan)} runs are in {results} already.")
        began, planned_seconds = time.monotonic(), 0.0
        for done, planned in enumerate(left):
            seconds = _estimate(left[done:], time.monotonic() - began, planned_seconds)
            place = f"{len(plan) - len(left) + done + 1} of {len(plan)}"
            say(f"{place}: {_describe(planned)}; {duration(seconds)} left")
            outcome = _run(planned, run)
            file.append(Line(run=fingerprint(planned.setup, planned.load), outcome=outcome))
            outcomes[_key(planned)] = outcome
            planned_seconds += planned.seconds
            say(f"  {outcome.sum_up()}")
    return [outcomes[_key(planned)] for planned in plan]


def _run(planned: Planned, run: Callable[[Planned], Outcome]) -> Outcome:
    try:
        return run(planned)
    except OSError as error:
        raise ResultsError(f"cannot run {_describe(planned)}: {error}") from error


def _find_outcomes(plan: Sequence[Planned], file: ResultsFile, path: Path) -> dict[Key, Outcome]:
    expected = {_key(planned): fingerprint(planned.setup, planned.load) for planned in plan}
    if len(expected) < len(plan):
        raise ValueError("a plan has the same run twice")
    for line in file.found:
        if expected.get(line.key) != line.run:
            setup, load, number = line.key
            why = "with another command or load" if line.key in expected else "which is not planned"
            raise ResultsError(
                f"{path} has the results of another plan: it has run {number + 1} of {setup} under {load}, {why}. "
                "Remove the file, or choose another one."
            )
    return {line.key: line.outcome for line in file.found}


def _key(planned: Planned) -> Key:
    return planned.setup.name, planned.label, planned.number


def _estimate(left: Sequence[Planned], elapsed: float, planned_seconds: float) -> float:
    """The seconds left, if the rest is as late as the runs so far."""
    factor = elapsed / planned_seconds if planned_seconds else 1.0
    return factor * sum(planned.seconds for planned in left)


def _describe(planned: Planned) -> str:
    return f"{planned.setup.name} under {planned.label}, run {planned.number + 1}"


@dataclass
class Progress:
    """Prints the lines of a series, with the time that is left for all series.

    plans: the runs by the file of their results, which has a line for each run that is done.
    """

    plans: Mapping[Path, Sequence[Planned]]
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)
    _first: float = field(init=False)

    def __post_init__(self) -> None:
        self._began, self._first = self.clock(), self._planned_left()

    def begin(self, title: str, file: Path) -> None:
        """Prints the head of a series."""
        print(f"\n{title}: {len(self.plans[file])} runs", flush=True)

    def say(self, text: str) -> None:
        """Prints a line of a series."""
        print(f"{text} ({duration(self.seconds_left())} for all)" if text.endswith(" left") else text, flush=True)

    def seconds_left(self) -> float:
        """The seconds for all runs that are not done, if they are as late as those done since the start."""
        left = self._planned_left()
        done = self._first - left
        return left * ((self.clock() - self._began) / done if done > 0 else 1.0)

    def _planned_left(self) -> float:
        return sum(
            sum(planned.seconds for planned in plan) * (1 - _kept(file) / len(plan))
            for file, plan in self.plans.items()
            if plan
        )


def _kept(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.is_file() else 0
