"""Parses numbers and lengths of time, and finds percentiles by nearest rank, so that each is one of the
measured values.

It stands alone because flags, settings and queries share it, and help loads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil

_SECONDS = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ms|s)?", re.ASCII)


class OutOfRangeError(ValueError):
    """The text is a number outside the bounds."""


def parse_number(text: str, least: float, most: float) -> float:
    """Parse a number; the bounds are included. Raises ValueError, and OutOfRangeError also for NaN."""
    number = float(text)
    if not least <= number <= most:
        raise OutOfRangeError(f"{text!r} is not a number from {least:g} to {most:g}")
    return number


def parse_duration(text: str) -> float:
    """Parse `250ms`, `2s` or `0.5` to seconds. Raises ValueError."""
    match = _SECONDS.fullmatch(text)
    if not match:
        raise ValueError(text)
    return float(match[1]) / (1000 if match[2] == "ms" else 1)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of these ascending values that at least this share of them does not exceed."""
    return ordered[rank(len(ordered), share)]


def rank(count: int, share: float) -> int:
    """The place of that value among `count` ascending ones, from 0."""
    return max(0, ceil(round(share * count, 6)) - 1)  # rounded: 0.07 * 100 is above 7
