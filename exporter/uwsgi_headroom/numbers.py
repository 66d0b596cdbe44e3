"""Parses numbers and lengths of time, and finds percentiles by nearest rank, so that each is one of the
measured values.

It stands alone because flags, settings and queries share it, and help loads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import ceil, isnan, nan

_QUANTITY = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9})\s*([A-Za-z]+)\s*", re.ASCII)

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0, "y": 365 * 86_400.0}
BYTES = {"M": 1e6, "MB": 1e6, "G": 1e9, "GB": 1e9, "T": 1e12, "TB": 1e12}


class OutOfRangeError(ValueError):
    """The text is a number outside the bounds."""


def parse_number(text: str, least: float, most: float) -> float:
    """Parse a number; the bounds are included. Raises ValueError, and OutOfRangeError also for NaN."""
    number = float(text)
    if not least <= number <= most:
        raise OutOfRangeError(f"{text!r} is not a number from {least:g} to {most:g}")
    return number


def parse_quantity(text: str, units: Mapping[str, float]) -> float:
    """Parse a number with its unit, such as `90s` or `1.5GB`; NaN for anything else, which is in no bounds."""
    match = _QUANTITY.fullmatch(text)
    return float(match[1]) * units.get(match[2], nan) if match else nan


def parse_duration(text: str) -> float:
    """Parse `250ms`, `2s` or `0.5` to seconds. Raises ValueError."""
    seconds = parse_quantity(text if text[-1:].isalpha() else f"{text}s", SECONDS)
    if isnan(seconds):
        raise ValueError(text)
    return seconds


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of these ascending values that at least this share of them does not exceed."""
    return ordered[rank(len(ordered), share)]


def rank(count: int, share: float) -> int:
    """The place of that value among `count` ascending ones, from 0."""
    return max(0, ceil(round(share * count, 6)) - 1)  # rounded: 0.07 * 100 is above 7
