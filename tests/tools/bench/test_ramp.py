"""The bench of headroom: where a wait crosses the threshold, what counts as a miss, and its clients' steps."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest

from tools.bench.clients import Answer, Answers, Plan, read_plan
from tools.bench.ramp import (
    AROUND,
    GROUPS,
    IGNORED_SECONDS,
    Case,
    Predicted,
    Result,
    Step,
    count_steps,
    find_crossing,
    make_kind,
    report,
)

CASE = Case("sleeping", 4, 1, (make_kind("sleep", 0.1),), 12.0)
PREDICTED = Predicted(12.0, 1000, 40.0, "threads", 26.0, "threads")


def _step(rate: float, wait: float, *, answers: int = 0, own: float = 0.1) -> Step:
    return Step(rate, 60.0, answers=answers, requests=100, waited=100 * wait, own=100 * own)


def _mm1(rate: float) -> Step:
    """A server of one thread that serves 10 requests a second: it reaches a quarter of 0.1 s at 2 a second."""
    return _step(rate, 0.1 * rate / 10 / (1 - rate / 10))


def test_the_crossing_is_between_the_steps() -> None:
    """A straight line through the logarithms finds where M/M/1 crosses the threshold; a wait that does not grow crosses
    nothing."""
    steps = [_mm1(2.0 * part) for part in AROUND]
    assert find_crossing(steps) == pytest.approx(2.0, rel=0.01)
    assert find_crossing([_step(1.0, 0.02), _step(2.0, 0.02)]) is None
    assert find_crossing([_step(1.0, 0.001), _step(2.0, 0.0011)]) is None
    assert find_crossing([]) is None


def test_misses_are_marked_and_counted() -> None:
    steps = tuple(_step(rate, 0.025 * (rate / 24) ** 3) for rate in (20.0, 24.0, 28.0))
    good = Result(CASE, PREDICTED, (*steps, _step(46.0, 1.0, answers=2460)))
    limit = Result(CASE, PREDICTED, (*steps, _step(46.0, 1.0, answers=1800)))
    unknown = Result(CASE, Predicted(12.0, 1000, None, "", None, ""), good.steps)
    flat = Result(CASE, PREDICTED, (*[_step(rate, 0.01) for rate in (20.0, 24.0)], good.steps[-1]))
    rows = report([good, limit, unknown, flat]).splitlines()[2:]
    assert "| sleeping | 4x1 | 12.0 | 26.0 → 24.0 (+8%) | threads | 40.0 → 41.0 (-2%) | threads |" in rows[0]
    assert "40.0 → 30.0 (+33% ✗)" in rows[1]
    assert rows[2].count("unknown → ") == 2
    assert "26.0 → unknown ✗" in rows[3]
    assert "4 of 8 predictions" in rows[-1]


def test_a_plan_is_read_as_it_was_written() -> None:
    """The clients are a process of their own, which gets its steps as JSON."""
    plan = Plan((("/run/a", 0.8), (8000, 0.2)), CASE.kinds, ((10.0, 60.0), (20.0, math.inf)), pause=0.5, seed=3)
    assert read_plan(json.dumps(asdict(plan))) == plan


def test_a_request_counts_in_the_step_that_it_began_in_and_an_answer_where_it_ended() -> None:
    """The start of a step does not count, nor do requests of another socket."""
    plan = Plan((("a", 0.8), ("b", 0.2)), CASE.kinds, ((10.0, 60.0), (20.0, 60.0)))
    counted = 100.0 + IGNORED_SECONDS
    answers = [
        Answer(place, 0.5, began, left + 0.1, str(left))
        for place, began, left in (
            (0, 100.0, 101.0),
            (0, counted, counted + 1),
            (1, counted, counted + 1),
            (0, 159.0, 160.0 + IGNORED_SECONDS),
        )
    ]
    first, second = count_steps(plan, Answers(100.0, answers, 0))
    assert first == Step(8.0, 60.0 - IGNORED_SECONDS, answers=1, requests=2, waited=0.5 + 8.5, own=1.0)
    assert second == Step(16.0, 60.0 - IGNORED_SECONDS, answers=1, requests=0)


def test_predictions_are_from_a_moderate_load() -> None:
    """Each case is predicted from 20 to 40 % of what its threads, CPUs or locks serve at most."""
    for case in (case for group in GROUPS for case in group):
        (first, *_), threads = case.kinds, case.processes * case.threads / len(case.shares)
        most = threads / case.mean
        if first.path.startswith("/cpu"):
            most = min(2, case.processes) / case.mean
        elif first.path.startswith("/lock"):
            most = case.processes / (first.weight * first.io / 1e3)
        assert 0.2 <= case.rate * case.shares[0] / most <= 0.4, (case.name, case.setting)
