"""What a check is asked for. Imports little, as help does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from uwsgi_headroom.check.thresholds import NO_THRESHOLDS, Thresholds

Format = Literal["text", "json", "nagios"]
FORMATS: tuple[Format, ...] = ("text", "json", "nagios")

WATCH_SECONDS = 30.0
"""How long a server is watched unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class Request:
    """addresses: of stats servers, globs and URLs of exporters, as the user wrote them; none: every server of this
    machine. seconds: how long to watch, or how far an exporter is to look back; None: WATCH_SECONDS, and what the
    exporter's page shows."""

    addresses: tuple[str, ...] = ()
    seconds: float | None = None
    format: Format = "text"
    thresholds: Thresholds = NO_THRESHOLDS
