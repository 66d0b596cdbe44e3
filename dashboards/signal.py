"""A signal: the content of a panel, separate from its drawing."""

from __future__ import annotations

from dataclasses import dataclass

PER_SECOND, PER_MINUTE = "suffix:/s", "suffix:/min"
TIMES = "suffix:x"
"""Custom units. Grafana's own for the first two are c/s and c/m."""


@dataclass(frozen=True)
class Series:
    """One query. legend: Grafana's template for the name of a series, or of a column in a table; now: only the value at
    the end of the time range.
    """

    expr: str
    legend: str = ""
    now: bool = False


@dataclass(frozen=True)
class Signal:
    """The content of a panel. unit: Grafana's name of it, or `suffix:x` for a custom unit; description: what the figure
    means, what to do about it, and why it may be empty.
    """

    name: str
    unit: str
    description: str
    series: tuple[Series, ...]


def signal(name: str, unit: str, description: str, *series: Series) -> Signal:
    """Makes a signal; joins the lines of its description into one paragraph."""
    return Signal(name, unit, " ".join(description.split()), series)
