"""Which test files are made from cases."""

from __future__ import annotations

from pathlib import Path

from tests.alerts.cases import balance, capacity, forecast
from tests.alerts.cases.case import render

TESTS = Path(__file__).parents[3] / "alerts" / "tests"


def made() -> dict[Path, str]:
    """The text of each file."""
    return {
        TESTS / "balance.test.yaml": render(balance.CASES, balance.RULES),
        TESTS / "capacity.test.yaml": render(capacity.CASES, capacity.RULES),
        TESTS / "forecast.test.yaml": render(forecast.CASES, forecast.RULES, evaluation="2h"),
    }
