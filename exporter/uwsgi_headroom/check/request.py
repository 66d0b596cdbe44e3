"""The request of a check: its targets, its format, the user's thresholds, and the statuses that it can return.

Help and the command line need this module, so it imports little.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from uwsgi_headroom.numbers import parse_duration, parse_number


@dataclass(frozen=True, slots=True)
class Threshold:
    """The values beyond which a figure is a warning and critical; None: never."""

    warning: float | None = None
    critical: float | None = None

    @property
    def least(self) -> float | None:
        return min((limit for limit in (self.warning, self.critical) if limit is not None), default=None)


UNSET = Threshold()


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The user's thresholds. min_headroom: a least factor; min_requests: a least number; the others: most seconds."""

    min_headroom: Threshold = UNSET
    max_queue_wait: Threshold = UNSET
    max_response_time: Threshold = UNSET
    max_p95: Threshold = UNSET
    max_p99: Threshold = UNSET
    min_requests: Threshold = UNSET


NO_THRESHOLDS = Thresholds()


def parse_minimum(text: str) -> Threshold:
    """Parse a least factor for argparse, `2`, `2:1.2` or `:1.2`: below it is a warning, or critical."""
    threshold = _parse(text, lambda part: parse_number(part.removesuffix("x"), 0, 1e6), "2:1.2")
    if None not in (threshold.warning, threshold.critical) and threshold.least != threshold.critical:
        raise argparse.ArgumentTypeError(f"{text}: the critical minimum is above the warning minimum")
    return threshold


def parse_maximum(text: str) -> Threshold:
    """Parse a largest time for argparse, `100ms`, `100ms:2s` or `:2s`: above it is a warning, or critical."""
    threshold = _parse(text, parse_duration, "100ms:2s")
    if threshold.warning is not None and threshold.least != threshold.warning:
        raise argparse.ArgumentTypeError(f"{text}: the critical maximum is below the warning maximum")
    return threshold


def _parse(text: str, parse: Callable[[str], float], example: str) -> Threshold:
    try:
        warning, critical = (parse(part) if part else None for part in text.partition(":")[::2])
        if warning is critical is None:
            raise ValueError(text)
        return Threshold(warning, critical)
    except ValueError:
        message = f"expected WARNING or WARNING:CRITICAL, such as {example}, not {text}"
        raise argparse.ArgumentTypeError(message) from None


Format = Literal["text", "json", "nagios"]
FORMATS: tuple[Format, ...] = ("text", "json", "nagios")

WATCH_SECONDS = 30.0
"""How long a server is watched by default."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options of one check, as `arguments.commands` describes them.

    addresses: empty for every server on this machine. seconds: None for WATCH_SECONDS, or the window that an exporter's
    page shows. stuck, read_pollfds: None for the default, or an exporter's own. code: the prefixes of the application's
    files, empty for the rule of `kernel.stacks.looks`; None: do not look.
    """

    addresses: tuple[str, ...] = ()
    seconds: float | None = None
    format: Format = "text"
    thresholds: Thresholds = NO_THRESHOLDS
    what_if: tuple[str, ...] = ()
    http_config: str | None = None
    stuck: str | None = None
    read_locks: bool = False
    read_pollfds: bool | None = None
    logs: tuple[str, ...] = ()
    no_log: bool = False
    code: tuple[str, ...] | None = None
    since_reload: bool = False
    wait: float = 0.0
    not_before: float | None = None
    """Epoch seconds."""
    all: bool = False
    save: str | None = None


Status = Literal["ok", "warning", "critical", "unknown"]

UNKNOWN = 3
"""No verdict: no server could be read, the usage was wrong, or the command failed or was interrupted."""

EXIT_STATUS: dict[Status, int] = {"ok": 0, "warning": 1, "critical": 2, "unknown": UNKNOWN}

WORST_FIRST: tuple[Status, ...] = ("critical", "warning", "unknown", "ok")
"""As `max_state_alt` of the Monitoring Plugins' library: an unreadable server does not hide a critical one."""


def find_worst(statuses: Iterable[Status]) -> Status:
    return min(statuses, key=WORST_FIRST.index, default="unknown")
