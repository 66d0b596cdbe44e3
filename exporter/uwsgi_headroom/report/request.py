"""What a capacity review is asked for on the command line. Imports none of the libraries of the extra `report`."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

QUARTER = 900.0
"""Seconds of a column's step: `model.STEP`."""

FORMATS = ("html", "pdf", "md", "json", "csv")
DEFAULT_RANGE = 30 * 86400.0
DEFAULT_OUT = "review.html"

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365 * 86400.0}
_RANGE = re.compile(r"(\d{1,6})([mhdwy])", re.ASCII)
_SHORTEST, _LONGEST = 2 * QUARTER, 2 * 366 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """The options of `report`. prometheus: a URL, or None for the history files; seconds: the length of the range;
    format: None to go by the ending of `out`."""

    prometheus: str | None
    history: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    seconds: float = DEFAULT_RANGE
    until: str | None = None
    time_zone: str | None = None
    out: str = DEFAULT_OUT
    format: str | None = None
    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    headers: tuple[str, ...] = ()
    ca_file: str | None = None


def parse_range(text: str) -> float:
    """Parse `36h`, `30d` or `12w` to seconds, for argparse."""
    match = _RANGE.fullmatch(text)
    seconds = int(match[1]) * _UNITS[match[2]] if match else 0.0
    if not _SHORTEST <= seconds <= _LONGEST:
        raise argparse.ArgumentTypeError(f"expected 30m to 2y, such as 36h, 30d or 12w, not {text}")
    return seconds
