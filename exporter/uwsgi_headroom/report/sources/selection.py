"""Selects what a review is of: servers by name, a range of whole quarters of an hour, a time zone, kinds of events.

The same for every source: a name that is unknown, a wrong time or too much data is refused here.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeVar
from zoneinfo import ZoneInfo

import numpy as np

from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.journal.events import Kind
from uwsgi_headroom.report.columns import STEP, Column

_EPOCH = re.compile(r"\d{9,11}(?:\.\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """since, until: epoch seconds, multiples of a quarter of an hour; zone: an IANA name."""

    since: float
    until: float
    zone: str

    @property
    def quarters(self) -> int:
        """The number of quarters of an hour."""
        return round((self.until - self.since) / STEP)

    def ends(self) -> Column:
        """The ends of the quarters of an hour: the column `time`."""
        return np.asarray(self.since + STEP * np.arange(1, self.quarters + 1), dtype=np.float64)

    def show(self) -> str:
        """Both ends, in local time."""
        ends = [datetime.fromtimestamp(end, ZoneInfo(self.zone)) for end in (self.since, self.until)]
        return f"{ends[0]:%Y-%m-%d %H:%M} to {ends[1]:%Y-%m-%d %H:%M} ({self.zone})"

    def nothing_sampled(self) -> str:
        """Why there is nothing to review, although there are servers."""
        return f"no quarter of an hour was sampled for at least half of it from {self.show()}"


def find_range(seconds: float, until: str | None, zone: str, now: float) -> TimeRange:
    """The range of `seconds` before `until`, or before now. `until` is a time as people write it, in the zone; of a
    time that occurs twice, the first is meant. Raises ConfigError."""
    end = now if until is None else _parse_time(until, zone)
    if end > now + STEP:
        raise ConfigError(f"--until: {until} is in the future")
    last = end // STEP * STEP
    return TimeRange(last - max(STEP, seconds // STEP * STEP), last, zone)


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
    name = os.path.realpath("/etc/localtime").rpartition("/zoneinfo/")[2]
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


class Named(Protocol):
    """A server that a source knows."""

    @property
    def name(self) -> str: ...

    @property
    def service(self) -> str: ...


Server = TypeVar("Server", bound=Named)

_MOST_LISTED = 20

MOST_VALUES = 1_000_000
"""The most quarters of an hour of all servers together: 115 servers over 90 days, whose columns take 1.5 GB."""


def select_servers(found: Sequence[Server], servers: Sequence[str], services: Sequence[str]) -> list[Server]:
    """The servers of these names, and those of these services; all without names. Raises HeadroomError if one of the
    names is unknown."""
    if not servers and not services:
        return list(found)
    for kind, asked, known in (
        ("server", servers, sorted({server.name for server in found})),
        ("service", services, sorted({server.service for server in found if server.service})),
    ):
        for name in asked:
            if name not in known:
                raise _unknown(kind, name, known)
    return [server for server in found if server.name in servers or server.service in services]


def refuse_too_many(servers: Sequence[Server], quarters: int) -> None:
    """Raise HeadroomError if so many servers over so many quarters of an hour would not fit into memory."""
    if len(servers) * quarters > MOST_VALUES:
        most = MOST_VALUES // quarters
        raise HeadroomError(
            f"{len(servers)} servers over {quarters // 96} days are too much at once: choose up to {most} with "
            "--service or --server, or a shorter --range"
        )


def _unknown(kind: str, name: str, known: Sequence[str]) -> HeadroomError:
    near = difflib.get_close_matches(name, known, 1)
    listed = ", ".join(known[:_MOST_LISTED]) + (", ..." if len(known) > _MOST_LISTED else "")
    hint = f"; did you mean {near[0]}?" if near else ""
    return HeadroomError(f"no {kind} {name} in this range{hint}", [f"It has: {listed}" if known else "It has none."])


SHOWN_KINDS: Mapping[Kind, str] = {
    "reload": "uWSGI was reloaded.",
    "configuration_changed": "The configuration of the server changed.",
    "server_down": "The server went down.",
    "server_up": "The server came up.",
}
"""Kinds with a title for a source that counts events only. Workers' ends are left out, as are the exporter's own
affairs: `reloads`, `respawns` and `covered` are columns."""
