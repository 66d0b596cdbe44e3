"""The request of a check. Imports little, so that help appears at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from uwsgi_headroom.check.thresholds import NO_THRESHOLDS, Thresholds

Format = Literal["text", "json", "nagios"]
FORMATS: tuple[Format, ...] = ("text", "json", "nagios")

WATCH_SECONDS = 30.0
"""How long a server is watched by default."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request of one check.

    addresses: stats servers, globs and URLs of exporters, as the user wrote them; empty: every server on this machine.
    seconds: how long to watch, or the length of an exporter's window; None: WATCH_SECONDS, or the window that the
    exporter's page shows. what_if: settings to predict,
    such as `8x4`. http_config: the path of an HTTP client configuration for exporters. stuck: the age from which on a
    request counts as stuck, such as `5m`; None: the default, or the exporter's own.
    """

    addresses: tuple[str, ...] = ()
    seconds: float | None = None
    format: Format = "text"
    thresholds: Thresholds = NO_THRESHOLDS
    what_if: tuple[str, ...] = ()
    http_config: str | None = None
    stuck: str | None = None
