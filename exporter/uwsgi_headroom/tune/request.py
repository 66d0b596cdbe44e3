"""Defines the options of `tune`, their ranges and defaults.

It stands alone because the command line needs it at every start: it imports nothing that takes time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DEFAULT_SECONDS = 10.0
SECONDS_RANGE = (1.0, 600.0)
DEFAULT_MOST_RUNS = 12
RUNS_RANGE = (4, 200)
CLIENTS_RANGE = (1, 2000)
RATE_RANGE = (0.1, 100_000.0)
LEAST_CLIENTS = 16
"""Clients of a closed loop, if none are given: as many as the present setting has threads, and at least so many."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(?:i?[bB])?", re.ASCII)
_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """The options of a call. One of ini and app is given. None: not given."""

    ini: str | None = None
    app: str | None = None
    chdir: str | None = None
    pythonpath: tuple[str, ...] = ()
    virtualenv: str | None = None
    uwsgi: str | None = None
    urls: tuple[str, ...] = ()
    access_log: str | None = None
    methods: tuple[str, ...] = ("GET",)
    max_memory: float | None = None
    """Bytes."""
    max_p99: float | None = None
    """Seconds."""
    clients: int | None = None
    rate: float | None = None
    seconds: float = DEFAULT_SECONDS
    most_runs: int = DEFAULT_MOST_RUNS
    output: str | None = None
    yes: bool = False


def parse_size(text: str) -> float:
    """Parse `800M`, `1.5GB` or `2000000` to bytes; a kilobyte has 1000. Raises ValueError, also for 0."""
    match = _SIZE.fullmatch(text.strip())
    if not match or not float(match[1]):
        raise ValueError(text)
    return float(match[1]) * _UNITS[match[2].lower()]


def parse_methods(text: str) -> tuple[str, ...]:
    """Parse `GET,HEAD` to methods. Raises ValueError."""
    methods = tuple(method.strip().upper() for method in text.split(","))
    if not all(re.fullmatch(r"[A-Z]{3,10}", method) for method in methods):
        raise ValueError(text)
    return methods
