"""What an experiment of the lab is: which runs it plans, and what it reports of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.lab.clients import Load
from app.lab.figures import Figure, Finding, Runs
from app.lab.programs import Machine, Programs
from app.lab.results import Setup, Spread
from app.lab.run import Planned
from app.lab.series import interleave

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
    """Returns the runs in the order A B A B; the name of each load begins with the experiment's key."""
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
    """Returns the figure of each setup that has it."""
    found = {name: runs.spread(name, load, figure) for name in setups}
    return {name: value for name, value in found.items() if value is not None}


def failures(runs: Runs, setups: Iterable[str], load: str) -> list[str]:
    """Returns a line for each setup whose runs all failed."""
    errors = {name: runs.error(name, load) for name in setups}
    return [f"* {name}: no result. {error.splitlines()[0]}" for name, error in errors.items() if error]
