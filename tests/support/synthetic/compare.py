"""Compares the data of a review with that of another source, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from uwsgi_headroom.report.columns import Column, ServerData, WorkerColumns


@dataclass(frozen=True)
class Difference:
    """Relative differences of a column: of its sum, and of its largest quarter of an hour. missing: quarters that only
    one of both has; largest: the largest value."""

    column: str
    sum: float
    maximum: float
    missing: int
    largest: float


def named_columns(server: ServerData | WorkerColumns) -> Iterator[tuple[str, Column]]:
    """Every column of a server by name, those of its parts and workers too."""
    for each in fields(server):
        value = getattr(server, each.name)
        if isinstance(value, np.ndarray) and each.name != "time":
            yield each.name, value
        elif each.name == "by_worker":
            for worker in value:
                yield from ((f"worker {worker.worker_id} {name}", column) for name, column in named_columns(worker))
        elif each.name in ("waits", "backends", "routes"):
            yield from ((f"{each.name} {part}", column) for part, column in value.items())
        elif each.name in ("occupancy", "by_time", "percentiles"):
            yield from ((f"{each.name} {place}", column) for place, column in enumerate(value))


def compare(one: ServerData, other: ServerData) -> list[Difference]:
    """The differences of all columns; both servers must have the same ones."""
    columns, others = dict(named_columns(one)), dict(named_columns(other))
    assert columns.keys() == others.keys(), columns.keys() ^ others.keys()
    return [_compare(name, columns[name], others[name]) for name in columns]


def _compare(name: str, one: Column, other: Column) -> Difference:
    known = ~np.isnan(one) & ~np.isnan(other)
    missing = int((np.isnan(one) != np.isnan(other)).sum())
    if not known.any():
        return Difference(name, 0.0, 0.0, missing, float("nan"))
    sums, maxima = ([float(f(column[known])) for column in (one, other)] for f in (np.sum, np.max))
    return Difference(name, _relative(*sums), _relative(*maxima), missing, maxima[1])


def _relative(one: float, other: float) -> float:
    return 0.0 if one == other else abs(one - other) / max(abs(other), 1e-300)
