"""Defines the options of `tune`. The command line needs it at every start: it imports nothing that takes time."""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.numbers import BYTES, parse_quantity

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
    if not (size := parse_quantity(text.upper(), BYTES)) > 0:
        raise ValueError(text)
    return size
