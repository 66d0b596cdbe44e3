"""Parses numbers, also with units, and finds percentiles by nearest rank.

Flags and settings share it, and help loads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil, nan

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0, "y": 31_536_000.0}
BYTES = {"M": 1e6, "MB": 1e6, "G": 1e9, "GB": 1e9, "T": 1e12, "TB": 1e12}


def parse_number(text: str, least: float, most: float) -> float:
    """Parse a number within bounds. Raises ValueError, also for NaN."""
    number = float(text)
    if not least <= number <= most:
        raise ValueError(text)
    return number


def parse_quantity(text: str, units: dict[str, float]) -> float:
    """Parse `90s` or `1.5GB`; NaN for anything else, which is in no bounds."""
    match = re.fullmatch(r"\s*(\d{0,9}\.?\d{1,9})\s*([A-Za-z]+)\s*", text, re.ASCII)
    return float(match[1]) * units.get(match[2], nan) if match else nan


def parse_duration(text: str) -> float:
    """Parse `250ms`, `2s` or `0.5` to seconds. Raises ValueError."""
    seconds = parse_quantity(text if text[-1:].isalpha() else f"{text}s", SECONDS)
    if not seconds >= 0:
        raise ValueError(text)
    return seconds


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of ascending values that at least this share does not exceed."""
    return ordered[max(0, ceil(round(share * len(ordered), 6)) - 1)]  # 0.07 * 100 is above 7
