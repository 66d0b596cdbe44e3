"""A signal: what a panel says, apart from how it looks."""

from __future__ import annotations

from dataclasses import dataclass

PER_SECOND, PER_MINUTE = "suffix:/s", "suffix:/min"
TIMES = "suffix:x"
"""Units of ours: Grafana's own for the first two are c/s and c/m."""


@dataclass(frozen=True)
class Series:
    """One query. legend: Grafana's template for a series' name, or in a table of a column; now: its value at the end of
    the shown time alone.
    """

    expr: str
    legend: str = ""
    now: bool = False


@dataclass(frozen=True)
class Signal:
    """unit: Grafana's name of it, `suffix:x` for one of our own; description: what it says, what to do about it, and
    why it may be empty.
    """

    name: str
    unit: str
    description: str
    series: tuple[Series, ...]


def signal(name: str, unit: str, description: str, *series: Series) -> Signal:
    """A signal; the lines of its description are one paragraph."""
    return Signal(name, unit, " ".join(description.split()), series)
