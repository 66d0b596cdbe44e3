"""What a capacity review is asked for on the command line. Imports nothing that reads or judges."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Literal, get_args

from uwsgi_headroom.numbers import SECONDS, parse_quantity

Format = Literal["html", "md", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
"""The names of the formats are also the endings of the files."""

DEFAULT_RANGE = 30 * 86400.0
DEFAULT_OUTPUT = "review.html"

_SHORTEST, _LONGEST = 1800.0, 2 * 366 * 86400.0
"""Seconds: two quarters of an hour, and two years, for which a history file keeps its records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """The options of `report`. prometheus: a URL, or None for the history files; seconds: the length of the range;
    format: None to go by the ending of `output`."""

    prometheus: str | None
    history: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    seconds: float = DEFAULT_RANGE
    until: str | None = None
    time_zone: str | None = None
    output: str = DEFAULT_OUTPUT
    format: Format | None = None
    headers: tuple[str, ...] = ()
    http_config: str | None = None


def parse_range(text: str) -> float:
    """Parse `36h`, `30d` or `12w` to seconds, for argparse."""
    seconds = parse_quantity(text, SECONDS)
    if not _SHORTEST <= seconds <= _LONGEST:
        raise argparse.ArgumentTypeError(f"expected 30m to 2y, such as 36h, 30d or 12w, not {text}")
    return seconds
