"""The limit on the CPU time of sampling, with simulated time and cost."""

import logging

import pytest

from tools.support.clock import MovableClock
from uwsgi_headroom.watch.pace import (
    LONGEST_INTERVAL,
    MOST_COUNTED_SECONDS,
    MOST_CPU,
    MOST_STRETCHED,
    PERIOD_SECONDS,
    CpuBudget,
    Pace,
)


def sample_for(budget: CpuBudget, hands: MovableClock, servers: int, cost: float, seconds: float) -> list[Pace]:
    """Servers that want a sample each second, of `cost` CPU seconds each."""
    paces = [Pace(1.0, budget=budget) for _ in range(servers)]
    for _ in range(int(seconds)):
        hands.move(1.0)
        for pace in paces:
            budget.note(cost / pace.interval)
    return paces


def test_within_the_budget_nothing_changes() -> None:
    """200 servers of a millisecond each take a fifth of a CPU: they are sampled as configured."""
    hands = MovableClock()
    budget = CpuBudget(hands.clock.monotonic)
    paces = sample_for(budget, hands, 200, 0.001, 60)
    assert budget.factor == 1.0
    assert {pace.interval for pace in paces} == {1.0}


def test_many_servers_yield_evenly(caplog: pytest.LogCaptureFixture) -> None:
    """1,000 servers are all sampled at one lower rate, at which they take the budget; the log says so once."""
    hands = MovableClock()
    budget = CpuBudget(hands.clock.monotonic)
    with caplog.at_level(logging.INFO):
        paces = sample_for(budget, hands, 1000, 0.001, 60)
        assert budget.factor == pytest.approx(1.0 / MOST_CPU, rel=0.05)
        assert len({pace.interval for pace in paces}) == 1
        assert paces[0].interval == pytest.approx(1.0 / MOST_CPU, rel=0.05)
        assert caplog.messages == ["sampling all servers less often, to limit its CPU time"]
        sample_for(budget, hands, 10, 0.001, 60)
        assert budget.factor == 1.0
        assert caplog.messages[1:] == ["sampling all servers as often as configured again"]


def test_a_large_document_does_not_slow_down_the_others() -> None:
    """A server whose document takes long counts only in part."""
    hands = MovableClock()
    budget = CpuBudget(hands.clock.monotonic)
    for _ in range(50):
        hands.move(0.2)
        budget.note(0.07)
    assert budget.factor == 1.0
    assert 5 * MOST_COUNTED_SECONDS < MOST_CPU


def test_no_factor_is_endless() -> None:
    """Beyond its bound, intervals have reached the longest one in any case."""
    hands = MovableClock()
    budget = CpuBudget(hands.clock.monotonic)
    for _ in range(10):
        for _ in range(10_000):
            budget.note(1.0)
        hands.move(PERIOD_SECONDS)
    assert budget.factor == MOST_STRETCHED
    assert Pace(4.0, budget=budget).interval == LONGEST_INTERVAL
    assert Pace(20.0, budget=budget).interval < LONGEST_INTERVAL
