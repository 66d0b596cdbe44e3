"""Reads durations that were written for people, and compares sums of them as far as they are rounded."""

import re
from collections.abc import Sequence
from typing import NamedTuple

DURATION = r"(\d[\d.]*) (ms|s|min|h)\b(?: (\d+) (s|min)\b)?"
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


class Written(NamedTuple):
    """A duration in seconds, and by how much it may have been rounded."""

    seconds: float
    doubt: float


def read_durations(text: str) -> list[Written]:
    """Each duration in a text."""
    return [_read(*parts) for parts in re.findall(DURATION, text)]


def _read(number: str, unit: str, rest: str, smaller: str) -> Written:
    step = 10.0 ** -len(number.partition(".")[2]) * _UNITS[smaller or unit]
    return Written(float(number) * _UNITS[unit] + (float(rest) * _UNITS[smaller] if rest else 0.0), 0.5001 * step)


def check_sum(whole: Written, parts: Sequence[Written]) -> None:
    """The parts add up to the whole, as far as all of them are rounded."""
    difference = abs(whole.seconds - sum(part.seconds for part in parts))
    assert difference <= whole.doubt + sum(part.doubt for part in parts) + 1e-9, (whole, parts)
