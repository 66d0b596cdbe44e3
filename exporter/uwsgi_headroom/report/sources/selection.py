"""Selects what a review is of: servers by name, a range of whole quarters of an hour, a time zone, kinds of events.

The same for every source: a name that is unknown, a wrong time or too much data is refused here, and servers that are
missing, renamed or recorded twice are described, one sentence each.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
from msgspec import Struct

from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.journal.events import Kind
from uwsgi_headroom.report.columns import STEP, Column, ServerData
from uwsgi_headroom.words.formats import duration

_EPOCH = re.compile(r"\d{9,11}(?:\.\d+)?", re.ASCII)


class TimeRange(Struct, frozen=True):
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


CLOCK_SECONDS = 60.0
"""Clocks that differ by less are as good as equal for quarters of an hour."""

_NOTABLE = 0.02
"""The part of the range that may be missing without a word."""

_RENAMED_SECONDS = 86400.0

_MOST_PAIRS = 3

_ENOUGH, _SAME = 8, 0.02
"""Quarters of an hour, and the relative difference between two scrapes of one counter at different times."""


def list_problems(servers: Sequence[ServerData], zone: str) -> list[str]:
    """Sentences about missing data, counted twice or renamed servers."""
    return [*_without_data(servers, zone), *_renamed(servers, zone), *_twice(servers)]


def describe_clock(ahead: float, whose: str) -> str:
    """A sentence about the other clock, which is `ahead` seconds ahead of this machine's; empty if they agree."""
    if abs(ahead) < CLOCK_SECONDS:
        return ""
    way = "ahead of" if ahead > 0 else "behind"
    known = abs(ahead) if abs(ahead) < 60 else round(abs(ahead), -1)  # it is read in whole seconds, from an answer
    return f"The clock of {whose} is {duration(known)} {way} this machine's. All times here are by that clock."


def _without_data(servers: Sequence[ServerData], zone: str) -> Iterator[str]:
    for server in servers:
        known = ~np.isnan(server.requests)
        missing = len(known) - int(known.sum())
        if not known.any():
            yield f"{server.server}: no quarter of an hour of the range was sampled for at least half of it."
        elif missing > _NOTABLE * len(known):
            first, last = np.flatnonzero(known)[[0, -1]]
            ends = f"from {_show(server.time[first] - STEP, zone)} to {_show(server.time[last], zone)}"
            yield (
                f"{server.server}: no data for {duration(missing * STEP)} of {duration(len(known) * STEP)}; "
                f"it has data {ends}, {100 * known[first : last + 1].mean():.0f} % of that time."
            )


def _renamed(servers: Sequence[ServerData], zone: str) -> Iterator[str]:
    """Servers of one service or host of which one begins where another ends."""
    spans = [(server, np.flatnonzero(~np.isnan(server.requests))) for server in servers]
    known = [(server, places[0], places[-1]) for server, places in spans if len(places)]
    pairs = [
        (old, new, end)
        for old, _, end in known
        for new, begin, _ in known
        if old is not new and 0 < (begin - end) * STEP <= _RENAMED_SECONDS and _related(old, new)
    ]
    for old, new, end in pairs[:_MOST_PAIRS]:
        yield (
            f"{old.server} ends and {new.server} begins around {_show(old.time[end], zone)}: if that is one server "
            "under another name, its trend is cut in two there."
        )
    if len(pairs) > _MOST_PAIRS:
        yield f"{len(pairs) - _MOST_PAIRS} more pairs of servers end and begin like that, as pods do."


def _related(one: ServerData, other: ServerData) -> bool:
    return (one.service == other.service != "") or (one.host == other.host != "")


def _twice(servers: Sequence[ServerData]) -> Iterator[str]:
    """Servers of one host with the same load: one server, recorded twice."""
    for place, one in enumerate(servers):
        for other in servers[:place]:
            both = ~np.isnan(one.requests) & ~np.isnan(other.requests)
            if not one.host or one.host != other.host or both.sum() < _ENOUGH or not np.any(one.requests[both] > 0):
                continue
            # Servers that only answer health checks have the same requests, but not the same threads in service.
            if all(
                np.allclose(mine[both], others[both], rtol=_SAME, atol=1e-6)
                for mine, others in ((one.requests, other.requests), (one.busy, other.busy))
            ):
                yield (
                    f"{other.server} and {one.server} have the same load: if that is one server, recorded twice, "
                    "choose one of the two with --server, or every figure of the service counts it twice."
                )


def _show(time: float, zone: str) -> str:
    return f"{datetime.fromtimestamp(time, ZoneInfo(zone)):%Y-%m-%d %H:%M}"
