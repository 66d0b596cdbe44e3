"""Parses numbers on the command line, with messages that say what is allowed."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from uwsgi_headroom.config.defaults import PASSWORD_COST_RANGE
from uwsgi_headroom.number_range import parse_number

_SECONDS = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ms|s)?", re.ASCII)


def seconds_between(least: float, most: float) -> Callable[[str], float]:
    """Make a parser of seconds between two bounds, for argparse."""

    def parse(text: str) -> float:
        try:
            return parse_number(text, least, most)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {least:g} to {most:g} seconds, not {text}") from None

    return parse


def parse_factor(text: str) -> float:
    """Parse a number of 0 or more, such as `1.5` or `1.5x`. Raises ValueError."""
    return parse_number(text.removesuffix("x"), 0, 1e6)


def parse_duration(text: str) -> float:
    """Parse `250ms`, `2s` or `0.5` to seconds. Raises ValueError."""
    match = _SECONDS.fullmatch(text)
    if not match:
        raise ValueError(text)
    return float(match[1]) / (1000 if match[2] == "ms" else 1)


def parse_cost(text: str) -> int:
    """Parse the cost of a bcrypt hash, for argparse."""
    if not (text.isascii() and text.isdigit() and PASSWORD_COST_RANGE[0] <= int(text[:4]) <= PASSWORD_COST_RANGE[1]):
        raise argparse.ArgumentTypeError(
            f"expected a whole number from {PASSWORD_COST_RANGE[0]} to {PASSWORD_COST_RANGE[1]}, not {text}"
        )
    return int(text)
