"""Which time a review covers: a range that ends on a quarter of an hour, and the time zone of its days."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.report.request import QUARTER

_EPOCH = re.compile(r"\d{9,11}(?:\.\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """since, until: epoch seconds, multiples of a quarter of an hour; zone: an IANA name."""

    since: float
    until: float
    zone: str

    def show(self) -> str:
        """Both ends, in local time."""
        ends = [datetime.fromtimestamp(end, ZoneInfo(self.zone)) for end in (self.since, self.until)]
        return f"{ends[0]:%Y-%m-%d %H:%M} to {ends[1]:%Y-%m-%d %H:%M} ({self.zone})"


def find_range(seconds: float, until: str | None, zone: str, now: float) -> TimeRange:
    """The range of `seconds` before `until`, or before now. `until` is a time as people write it, in the zone; of a
    time that occurs twice, the first is meant. Raises ConfigError."""
    end = now if until is None else _parse_time(until, zone)
    if end > now + QUARTER:
        raise ConfigError(f"--until: {until} is in the future")
    last = end // QUARTER * QUARTER
    return TimeRange(last - max(QUARTER, seconds // QUARTER * QUARTER), last, zone)


def find_zone(name: str | None) -> str:
    """The time zone's IANA name: as given, or that of this machine, or UTC. Raises ConfigError."""
    if name is None:
        return next((zone for zone in (os.environ.get("TZ", ""), _local_zone()) if _is_zone(zone)), "UTC")
    if not _is_zone(name):
        raise ConfigError(f"--time-zone: {name} is not known here; an example is Europe/Berlin")
    return name


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        return False
    return True


def _local_zone() -> str:
    """The name behind /etc/localtime."""
    name = str(Path("/etc/localtime").resolve()).rpartition("/zoneinfo/")[2]
    return name.replace("Etc/UTC", "UTC")


def _parse_time(text: str, zone: str) -> float:
    if _EPOCH.fullmatch(text):
        return float(text)
    try:
        # Before Python 3.11, a final Z is not understood.
        time = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
    except ValueError:
        example = "2026-10-01, 2026-10-01T12:00 or epoch seconds"
        raise ConfigError(f"--until: {text} is not a time; examples are {example}") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=ZoneInfo(zone))
    if not timedelta(days=1) < time - datetime.fromtimestamp(0, time.tzinfo):
        raise ConfigError(f"--until: {text} is before 1970")
    return time.timestamp()
