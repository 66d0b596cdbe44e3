"""A number between two bounds, from text. Each caller words its own refusal."""

from __future__ import annotations


class OutOfRangeError(ValueError):
    """The text is a number, but not one between the bounds."""


def parse_number(text: str, least: float, most: float) -> float:
    """The number that the text is, bounds included. Raises ValueError, and OutOfRangeError for NaN too."""
    number = float(text)
    if not least <= number <= most:
        raise OutOfRangeError(f"{text!r} is no number from {least:g} to {most:g}")
    return number
