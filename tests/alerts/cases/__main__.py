"""`python -m tests.alerts.cases`: write the test files that are made from cases."""

from __future__ import annotations

from pathlib import Path

from tests.alerts.cases import balance, capacity, forecast
from tests.alerts.cases.case import render

TESTS = Path(__file__).parents[3] / "alerts" / "tests"

FILES = {
    "balance.test.yaml": render(balance.CASES, balance.RULES),
    "capacity.test.yaml": render(capacity.CASES, capacity.RULES),
    "forecast.test.yaml": render(forecast.CASES, forecast.RULES, evaluation="2h"),
}

if __name__ == "__main__":
    for name, text in FILES.items():
        (TESTS / name).write_text(text)
