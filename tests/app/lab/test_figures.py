"""The figures of the lab, and the page that they are on."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.lab import document, processes, published
from app.lab.__main__ import EXPERIMENTS
from app.lab.clients import Answers
from app.lab.experiment import Length, load_label
from app.lab.figures import compare_change, error_rate, order, ratio
from app.lab.results import Outcome, Spread, spread
from tests.app.lab.made_up import machine, outcome


@pytest.mark.parametrize(
    ("first", "second", "sign"),
    [
        ([1, 2], [3, 4], 1),
        ([3, 4], [1, 2], -1),
        ([1, 3], [2, 4], 0),
        ([1, 2], [2, 3], 0),
        ([1], [2], 0),
        ([1, 1], [2], 0),
    ],
)
def test_ranges_that_touch_have_no_order(first: list[float], second: list[float], sign: int) -> None:
    """An order counts only if no repetition contradicts it; a single run decides nothing."""
    assert order(spread(first), spread(second)) == sign


def test_a_ratio_has_the_range_that_the_repetitions_allow() -> None:
    """From the lowest over the highest to the highest over the lowest."""
    found = ratio(spread([8, 12]), spread([4, 5]))
    assert (found.low, found.high) == (8 / 5, 12 / 4)
    assert found.median == pytest.approx(10 / 4.5)
    assert spread([2.0]) == Spread(2.0, 2.0, 2.0, 1)


@pytest.mark.parametrize(
    ("published", "before", "after", "verdict", "words"),
    [
        (3.0, [100, 110], [200, 220], "agrees", "It rose: 2.00x (1.82 to 2.20); published 3.00x."),
        (3.0, [100, 110], [50, 60], "differs", "It fell, the other way"),
        (3.0, [100, 110], [105, 120], "differs", "No difference beyond the ranges of the runs"),
        (1.1, [100, 110], [105, 120], "open", "The published effect would be inside."),
        (0.5, [100, 110], [40, 60], "agrees", "It fell:"),
        (3.0, [0, 0], [1, 1], "open", "A run had no answers."),
    ],
)
def test_a_change_is_compared_with_the_published_one(
    published: float, before: list[float], after: list[float], verdict: str, words: str
) -> None:
    """The same direction beyond the ranges agrees; inside them it is open if the published effect would fit too."""
    finding = compare_change("It", published, spread(before), spread(after))
    assert finding.verdict == verdict
    assert words in finding.text


def test_the_error_rate_counts_all_kinds() -> None:
    """Failed requests of every kind, of all requests; none without any."""
    answers = Answers(seconds=1.0, answered=90, errors={"timeout": 7, "reset": 3})
    assert error_rate(Outcome(setup="s", load="l", number=0, answers=answers)) == pytest.approx(0.1)
    assert error_rate(outcome("s", "l", rate=0.0)) is None
    assert error_rate(Outcome(setup="s", load="l", number=0, answers=None, error="no")) is None


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
