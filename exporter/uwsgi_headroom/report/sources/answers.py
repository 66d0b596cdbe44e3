"""Keeps the values of a Prometheus by query, server and part, and divides them into figures of quarters of an hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from uwsgi_headroom.report.model import STEP, Column
from uwsgi_headroom.report.sources.prometheus_api import Series
from uwsgi_headroom.report.sources.questions import Question
from uwsgi_headroom.report.sources.server_series import ServerSeries


@dataclass
class Answers:
    """Values for `quarters` quarters of an hour. values: by server and query, by the part's label ("" without parts);
    a query with a shorter step has several values per quarter."""

    quarters: int
    values: dict[tuple[str, str], dict[str, Column]] = field(default_factory=dict)

    def add(self, question: Question, servers: Iterable[ServerSeries], series: Iterable[Series], first: int) -> None:
        """Add the answer to a question about these servers that begins with the quarter `first`. Series of other
        servers are left out."""
        names = {frozenset(server.labels.items()): server.name for server in servers}
        each = round(STEP / question.step)
        for one in series:
            own = {label: text for label, text in one.labels.items() if label not in ("__name__", question.part)}
            name = names.get(frozenset(own.items()))
            if name is None:
                continue
            parts = self.values.setdefault((name, question.name), {})
            part = one.labels.get(question.part, "") if question.part else ""
            column = parts.setdefault(part, np.full(self.quarters * each, np.nan))
            column[first * each : first * each + len(one.values)] = one.values

    def of(self, server: ServerSeries) -> ServerAnswers:
        """The values of one server."""
        own = {query: parts for (name, query), parts in self.values.items() if name == server.name}
        return ServerAnswers(self.quarters, own)


@dataclass(frozen=True)
class ServerAnswers:
    """The values of one server, by query and part."""

    quarters: int
    values: Mapping[str, Mapping[str, Column]]

    def column(self, query: str) -> Column:
        """The values of a query without parts; nan where unknown."""
        return self.values.get(query, {}).get("", self.unknown())

    def part(self, query: str, part: str) -> Column:
        """The values of one part; nan where unknown."""
        return self.values.get(query, {}).get(part, self.unknown())

    def parts(self, query: str) -> Sequence[str]:
        """The parts of a query."""
        return list(self.values.get(query, {}))

    def last(self, query: str) -> float | None:
        """The last known value of a query without parts."""
        known = self.column(query)
        known = known[~np.isnan(known)]
        return float(known[-1]) if len(known) else None

    def unknown(self) -> Column:
        """A column of nan."""
        return np.full(self.quarters, np.nan)


def divide(part: Column, whole: Column) -> Column:
    """part / whole; nan where the whole is not positive."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(whole > 0, part / whole, np.nan), dtype=np.float64)


def add_known(columns: Sequence[Column], length: int) -> Column:
    """The sum of the values that are known; nan where none is."""
    if not columns:
        return np.full(length, np.nan)
    table = np.stack(columns)
    return np.where(np.isnan(table).all(axis=0), np.nan, np.nansum(table, axis=0))


def add_all(columns: Sequence[Column], needed: Sequence[Column], length: int) -> Column:
    """The sum of columns; nan where one is unknown although the one beside it in `needed` is known."""
    total = add_known(columns, length)
    for column, beside in zip(columns, needed, strict=True):
        total[np.isnan(column) & ~np.isnan(beside)] = np.nan
    return total


def split_cumulative(columns: Mapping[float, Column]) -> tuple[tuple[float, ...], tuple[Column, ...]]:
    """The values between the bounds of a cumulative histogram, which must have the bound inf; no bounds without it. A
    bound that is unknown while the whole is known is left out: an objective's threshold that changed."""
    whole = columns.get(float("inf"))
    if whole is None:
        return (), ()
    bounds = tuple(bound for bound in sorted(columns) if not (np.isnan(columns[bound]) & ~np.isnan(whole)).any())
    between, below = [], np.zeros_like(whole)
    for bound in bounds:
        between.append(np.maximum(0.0, columns[bound] - below))
        below = columns[bound]
    return bounds, tuple(between)
