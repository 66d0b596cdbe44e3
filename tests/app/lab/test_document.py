"""The page has every published experiment, and what was measured of it."""

from __future__ import annotations

from pathlib import Path

from app.lab import __main__ as document
from app.lab import processes, published
from app.lab.__main__ import EXPERIMENTS
from app.lab.experiment import Length, load_label
from app.lab.results import Outcome
from tests.app.lab.made_up import machine, outcome


def written(directory: Path, outcomes: dict[str, list[Outcome]]) -> str:
    """The page from these outcomes."""
    return document.render(EXPERIMENTS, outcomes, machine(), directory, Length())


def test_the_page_says_what_was_run_and_what_was_not(tmp_path: Path) -> None:
    """An experiment without results names the command that runs it."""
    load = load_label("E2", processes.FOUR)
    runs = [
        outcome(name, load, n, rate=rate, cpus=(0.6, 0.6 + n))
        for name, rate in (("1x1", 10), ("2x1", 20))
        for n in (0, 1)
    ]
    page = written(tmp_path, {"E2": runs})
    assert "\n## E2" in page
    assert "\n## E1" not in page
    assert "4 runs of the short lab, 0 of them without a result, on 2 CPUs" in page
    assert "in the median run, and 1.10 in the worst" in page
    assert "* Agrees: throughput of 2 processes beside 1." in page
    assert 'not in this report: `make lab ARGS="--only E1"`' in page


def test_every_published_experiment_is_listed(tmp_path: Path) -> None:
    """Also those that are gone, with the reason."""
    page = written(tmp_path, {})
    for experiment in published.EXPERIMENTS:
        assert f"| {experiment.key} | {experiment.name} | no | " in page
    assert "| the server FAPWS3 | no | its last release, of 2012, is for Python 2" in page
