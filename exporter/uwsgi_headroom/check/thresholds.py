"""The user's thresholds for `check`, besides the limits of every verdict. Imports little: help needs this module."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from uwsgi_headroom.numbers import parse_duration, parse_number


@dataclass(frozen=True, slots=True)
class Threshold:
    """The values beyond which a figure is a warning and critical; None: never."""

    warning: float | None = None
    critical: float | None = None

    @property
    def least(self) -> float | None:
        """The smaller of the values that are set."""
        return min((limit for limit in (self.warning, self.critical) if limit is not None), default=None)


UNSET = Threshold()


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The user's thresholds. min_headroom: a least factor; the others: most seconds."""

    min_headroom: Threshold = UNSET
    max_queue_wait: Threshold = UNSET
    max_response_time: Threshold = UNSET
    max_p95: Threshold = UNSET
    max_p99: Threshold = UNSET


NO_THRESHOLDS = Thresholds()


def parse_minimum(text: str) -> Threshold:
    """Parse a least factor for argparse: `2`, `2:1.2` or `:1.2`. Below the first is a warning, below the second
    critical."""
    threshold = _parse(text, _parse_factor, "2:1.2")
    if _is_above(threshold.critical, threshold.warning):
        raise argparse.ArgumentTypeError(f"{text}: the critical minimum is above the warning minimum")
    return threshold


def parse_maximum(text: str) -> Threshold:
    """Parse a largest time for argparse: `100ms`, `100ms:2s` or `:2s`. Above the first is a warning, above the second
    critical."""
    threshold = _parse(text, parse_duration, "100ms:2s")
    if _is_above(threshold.warning, threshold.critical):
        raise argparse.ArgumentTypeError(f"{text}: the critical maximum is below the warning maximum")
    return threshold


def _parse_factor(text: str) -> float:
    """Parse a number of 0 or more, such as `1.5` or `1.5x`. Raises ValueError."""
    return parse_number(text.removesuffix("x"), 0, 1e6)


def _is_above(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one > other


def _parse(text: str, parse: Callable[[str], float], example: str) -> Threshold:
    warning, _, critical = text.partition(":")
    try:
        if not warning and not critical:
            raise ValueError(text)
        return Threshold(parse(warning) if warning else None, parse(critical) if critical else None)
    except ValueError:
        message = f"expected WARNING or WARNING:CRITICAL, such as {example}, not {text}"
        raise argparse.ArgumentTypeError(message) from None
