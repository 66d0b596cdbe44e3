"""The table: one line per figure, with its target and whether the target was met."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One comparison, as formatted texts. met: None where no target applies."""

    figure: str
    ours: str
    truth: str
    error: str
    target: str
    met: bool | None
    note: str = ""


HEADER = ("case", "figure", "ours", "truth", "error", "target", "", "note")


def header() -> str:
    return f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}"


def lines(case: str, compared: Iterable[Line]) -> str:
    return "\n".join(
        f"| {case} | {line.figure} | {line.ours} | {line.truth} | {line.error} | {line.target} | {mark(line.met)} "
        f"| {line.note} |"
        for line in compared
    )


def mark(met: bool | None) -> str:
    return "-" if met is None else "✓" if met else "✗"


def within(
    figure: str, ours: float, truth: float, target: float | None, note: str = "", unit: str = "", scale: float = 1
) -> Line:
    """Returns the line of a figure whose relative error may be at most `target`; None for no target."""
    error = ours / truth - 1 if truth else float("inf") if ours else 0.0
    return Line(
        figure,
        f"{ours * scale:.4g}{unit}",
        f"{truth * scale:.4g}{unit}",
        f"{error:+.2%}",
        f"{target:.0%}" if target is not None else "-",
        abs(error) <= target if target is not None else None,
        note,
    )
