"""Compares the answers of stores that hold the same fleet: recorded series, and the queries of all dashboards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.fleet import panels
from tools.support.dashboard_queries import NAMES, queries
from tools.support.monitoring import Labels, Prometheus

OWN_LABELS = frozenset({"replica", "ruler"})
"""That a store adds, and the other does not."""
LARGE = 0.05
"""A relative difference that is listed. Scrapers read the fleet at different moments of an interval."""
TINY = 1e-6


def recorded(files: Iterable[Path]) -> list[str]:
    """Returns the names of all recorded series of rule files, in order."""
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    return list(dict.fromkeys(rule["record"] for group in groups for rule in group["rules"] if "record" in rule))


def compare(one: Prometheus, other: Prometheus, expressions: Mapping[str, str], at: float) -> dict[str, Any]:
    """Returns for each expression how many label sets both have, which only one has, and the differences."""
    return {name: difference(_ask(one, text, at), _ask(other, text, at)) for name, text in expressions.items()}


def recorded_series(files: Iterable[Path]) -> dict[str, str]:
    """Returns an expression for each recorded series, by its name."""
    return {name: name for name in recorded(files)}


def panel_queries(seconds: float, start: float) -> dict[str, str]:
    """Returns the expression of each query of each dashboard, by its place, but not those for values of variables."""
    return {
        query.where: query.expression
        for name in NAMES
        for query in queries(name, panels.variables(name, start), seconds)
        if query.kind != "values"
    }


def difference(one: Mapping[Labels, float] | str, other: Mapping[Labels, float] | str) -> dict[str, Any]:
    """Returns the differences of two instant vectors. A text is an error."""
    if isinstance(one, str) or isinstance(other, str):
        return {"errors": [text for text in (one, other) if isinstance(text, str)]}
    mine, theirs = _plain(one), _plain(other)
    both = mine.keys() & theirs.keys()
    off = {key: _relative(mine[key], theirs[key]) for key in both}
    large = sorted(
        ((value, str(sorted(key)), mine[key], theirs[key]) for key, value in off.items() if value > LARGE), reverse=True
    )
    return {
        "both": len(both),
        "only one": sorted(str(sorted(key)) for key in mine.keys() - both)[:3],
        "only other": sorted(str(sorted(key)) for key in theirs.keys() - both)[:3],
        "largest": max(off.values(), default=0.0),
        "large": len(large),
        "examples": large[:3],
    }


def _ask(store: Prometheus, expression: str, at: float) -> dict[Labels, float] | str:
    try:
        return store.query(expression, at)
    except (AssertionError, OSError, ValueError) as error:
        return str(error)[:300]


def _plain(values: Mapping[Labels, float]) -> dict[Labels, float]:
    """Returns values without the labels that a store adds, and without those that are no number."""
    return {
        frozenset(pair for pair in labels if pair[0] not in OWN_LABELS): value
        for labels, value in values.items()
        if not math.isnan(value)
    }


def _relative(one: float, other: float) -> float:
    if one == other or max(abs(one), abs(other)) < TINY:
        return 0.0
    return abs(one - other) / max(abs(one), abs(other)) if math.isfinite(one) and math.isfinite(other) else math.inf
