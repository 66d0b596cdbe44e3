"""Service level objectives: parses them, and refuses those that samples cannot judge."""

from __future__ import annotations

import math
from dataclasses import dataclass

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.numbers import SECONDS, parse_quantity

HIGHEST_OBJECTIVE = 0.995
"""Above, so few requests may be slow that the error of their estimate decides."""

LOWEST_OBJECTIVE = 0.5

INTERVALS = 2.0
"""The least threshold, in times between two samples: below, samples do not show how many requests are slower."""

_LONGEST = 60.0


@dataclass(frozen=True, slots=True)
class Slo:
    """A service level objective: a share of the requests finishes within a time."""

    threshold: float
    """Seconds."""
    objective: float
    """The share, as a fraction."""
    where: str = ""
    """The line or flag that sets it."""


def parse_slo(text: str, where: str) -> Slo:
    """Parse `THRESHOLD:OBJECTIVE`, such as `1s:99%`. Raises ConfigError."""
    threshold, separator, objective = text.strip().partition(":")
    if not separator:
        raise ConfigError(
            f"{where}: {text!r} is not an objective; write THRESHOLD:OBJECTIVE, such as 1s:99% for 99 of 100 requests "
            "within a second"
        )
    return Slo(parse_threshold(threshold, where), parse_objective(objective, where), where)


def parse_threshold(text: str, where: str) -> float:
    """Parse a response time such as `800ms` or `1.5s`; returns seconds. Raises ConfigError."""
    seconds = parse_quantity(text, SECONDS)
    if not 0 < seconds <= _LONGEST:
        raise ConfigError(f"{where}: {text!r} is not a response time up to 60s; write it with its unit, such as 800ms")
    return round(seconds, 6)


def parse_objective(text: str, where: str) -> float:
    """Parse the share of good requests, `99%` or `0.99`; returns a fraction. Raises ConfigError."""
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not LOWEST_OBJECTIVE <= share < 1:
        raise ConfigError(
            f"{where}: {text!r} is not an objective; write the share of good requests, from 50% to 99.5%, such as 99%"
        )
    if share > HIGHEST_OBJECTIVE:
        raise ConfigError(
            f"{where}: an objective of {text.strip()} cannot be judged from samples; the highest is "
            f"{HIGHEST_OBJECTIVE:.1%}"
        )
    return round(share, 6)


def refuse_too_short(slo: Slo, samples_per_second: float) -> None:
    """Raise ConfigError if the threshold is too short for the sampling rate."""
    least = INTERVALS / samples_per_second
    if slo.threshold < least - 1e-9:
        raise ConfigError(
            f"{slo.where}: a threshold of {slo.threshold * 1000:g}ms cannot be judged with {samples_per_second:g} "
            f"samples per second; the least is {math.ceil(least * 1000)}ms, two times between samples: raise the "
            "threshold, or samples_per_second"
        )
