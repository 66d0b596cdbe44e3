"""Finds where the wait of the steps crosses the threshold, compares with the predictions, and writes the table."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from tools.bench.ramp.cases import LIMIT
from tools.bench.ramp.run import Result, Step
from tools.bench.table import render_table
from uwsgi_headroom.analysis.littles_law import noticed_wait

HEAD = (
    "requests | server | predicted from, requests/s | waits from, requests/s | by | most, requests/s | by | "
    "other programs, CPUs | mean wait of the steps, ms (requests/s)"
)


def find_crossing(steps: Sequence[Step]) -> float | None:
    """The rate at which the mean wait reaches the threshold, by a straight line through the logarithms of all steps;
    None if the wait does not grow, or if the line reaches the threshold at less than half of the lowest rate, or more
    than twice the highest one."""
    points = [
        (log(step.rate), log(max(_LEAST_WAIT, step.waited / step.requests) / _threshold(step)))
        for step in steps
        if step.requests
    ]
    if len(points) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    if slope <= 0:
        return None
    found = exp(mean_x - mean_y / slope)
    rates = [step.rate for step in steps]
    return found if min(rates) / 2 <= found <= 2 * max(rates) else None


_LEAST_WAIT = 1e-4


def _threshold(step: Step) -> float:
    return noticed_wait(step.own / step.requests)


def table(results: Sequence[Result]) -> str:
    """The table, misses included: measured, predicted, error."""
    return render_table(HEAD, [_row(result) for result in results])


def _row(result: Result) -> str:
    case, predicted, (*steps, overload) = result.case, result.predicted, result.steps
    waits = ", ".join(f"{1e3 * step.waited / step.requests:.0f} ({step.rate:.1f})" for step in steps if step.requests)
    return " | ".join(
        [
            case.name,
            case.setting,
            f"{predicted.rate:.1f}",
            _cell(find_crossing(steps), predicted.waiting, case.tolerance),
            predicted.waiting_by.replace("_", " "),
            _cell(overload.served, predicted.limit, LIMIT),
            predicted.limit_by.replace("_", " "),
            f"{result.others:.2f}",
            waits,
        ]
    )


def _cell(measured: float | None, predicted: float | None, tolerance: float) -> str:
    if measured is None or predicted is None:
        return f"{_number(predicted)} → {_number(measured)} ✗"
    error = predicted / measured - 1
    return f"{predicted:.1f} → {measured:.1f} ({error:+.0%}{'' if abs(error) <= tolerance else ' ✗'})"


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.1f}"


def summary(results: Sequence[Result]) -> str:
    """How many predictions are within the tolerance."""
    cells = [_row(result).split(" | ") for result in results]
    good = sum("✗" not in cell for row in cells for cell in (row[3], row[5]))
    return f"{good} of {2 * len(cells)} predictions are within the tolerance. ✗ is a miss."
