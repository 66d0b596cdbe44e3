"""Defines the options of `tune`. The command line needs it at every start: it imports nothing that takes time."""

from __future__ import annotations

import re
from dataclasses import dataclass

DEFAULT_SECONDS = 10.0
LEAST_CLIENTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """The options of a call. max_memory: bytes."""

    ini: str
    uwsgi: str | None = None
    urls: tuple[str, ...] = ()
    access_log: str | None = None
    clients: int | None = None
    seconds: float = DEFAULT_SECONDS
    max_memory: float | None = None
    output: str | None = None
    yes: bool = False


def parse_size(text: str) -> float:
    """Parse `800M` or `1.5GB` to bytes; a megabyte has 10**6. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([MG])B?", text.strip().upper())
    if not match or not float(match[1]):
        raise ValueError(text)
    return float(match[1]) * {"M": 1e6, "G": 1e9}[match[2]]
