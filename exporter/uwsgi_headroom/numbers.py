"""Parses numbers and lengths of time. Each caller writes its own error message.

It stands alone because flags, settings and queries share it, and help loads it.
"""

from __future__ import annotations

import re

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
