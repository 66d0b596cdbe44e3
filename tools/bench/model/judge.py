"""Compares predictions with what was measured, and writes the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.bench.model.run import Truth
from tools.bench.table import render_table
from uwsgi_headroom.analysis.what_if import Prediction, Setting

THROUGHPUT, RESPONSE_TIME = 0.15, 0.25
"""Tolerances, as parts of what was measured."""


@dataclass(frozen=True)
class Row:
    """A setting at its most throughput (load None) or at a part of it, measured and predicted."""

    workload: str
    setting: Setting
    load: float | None
    truth: Truth
    predicted: Prediction

    def errors(self) -> list[tuple[str, float, float | None, float, float]]:
        """What is judged: name, measured, predicted (None: no prediction), tolerance, and the factor to its unit."""
        if self.load is None:
            return [("most", self.truth.throughput, self.predicted.most_throughput, THROUGHPUT, 1.0)]
        (at,) = self.predicted.at
        # A load that is not sustained has no time, and is a miss.
        return [
            ("time in service", self.truth.service, at.response_time, RESPONSE_TIME, 1e3),
            ("time with queue", self.truth.total, at.total_time, RESPONSE_TIME, 1e3),
        ]


def table(rows: Sequence[Row]) -> str:
    """The table, misses included: measured, predicted, error."""
    names = ("most", "time in service", "time with queue")
    head = "requests | setting | load | other programs, CPUs | most, requests/s | " + " | ".join(
        f"{name}, ms" for name in names[1:]
    )
    return render_table(head, [_cells(row, names) for row in rows])


def _cells(row: Row, names: Sequence[str]) -> str:
    cells = {name: _cell(measured, predicted, limit, unit) for name, measured, predicted, limit, unit in row.errors()}
    load = "most" if row.load is None else f"{row.load:.0%}"
    parts = [
        row.workload,
        str(row.setting),
        load,
        f"{row.truth.other_programs:.2f}",
        *(cells.get(name, "") for name in names),
    ]
    return " | ".join(parts)


def _cell(measured: float, predicted: float | None, tolerance: float, unit: float) -> str:
    if predicted is None:
        return f"{measured * unit:.3g} → too much ✗"
    error = predicted / measured - 1
    return f"{measured * unit:.3g} → {predicted * unit:.3g} ({error:+.0%}{'' if abs(error) <= tolerance else ' ✗'})"


def summary(rows: Sequence[Row]) -> str:
    """How many are within the tolerance."""
    judged = [error for row in rows for error in row.errors()]
    good = sum(
        predicted is not None and abs(predicted / measured - 1) <= tolerance
        for _, measured, predicted, tolerance, _ in judged
    )
    return (
        f"{good} of {len(judged)} predictions are within the tolerance: throughput {THROUGHPUT:.0%}, response time "
        f"{RESPONSE_TIME:.0%}. ✗ is a miss."
    )
