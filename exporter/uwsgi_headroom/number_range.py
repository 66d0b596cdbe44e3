"""Parses a number between two bounds. Each caller writes its own error message."""

from __future__ import annotations


class OutOfRangeError(ValueError):
    """The text is a number outside the bounds."""


def parse_number(text: str, least: float, most: float) -> float:
    """Parse a number; the bounds are included. Raises ValueError, and OutOfRangeError also for NaN."""
    number = float(text)
    if not least <= number <= most:
        raise OutOfRangeError(f"{text!r} is not a number from {least:g} to {most:g}")
    return number
