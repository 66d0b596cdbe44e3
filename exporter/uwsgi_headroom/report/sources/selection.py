"""Selects what a review is of: servers by name, a range of whole quarters of an hour, a time zone.

What is missing or recorded twice is described, one sentence each.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import combinations
from typing import TypeVar
from zoneinfo import ZoneInfo

from msgspec import Struct

from uwsgi_headroom.errors import ConfigError, HeadroomError
from uwsgi_headroom.report.quarters import STEP, ServerHistory, count_requests, mean_busy
from uwsgi_headroom.store.record import Record
from uwsgi_headroom.words.formats import duration

_EPOCH = re.compile(r"\d{9,11}(?:\.\d+)?", re.ASCII)


class TimeRange(Struct, frozen=True):
    """since, until: epoch seconds, multiples of a quarter of an hour; zone: an IANA name."""

    since: float
    until: float
    zone: str

    @property
    def quarters(self) -> int:
        return round((self.until - self.since) / STEP)

    def ends(self) -> list[float]:
        return [self.since + STEP * number for number in range(1, self.quarters + 1)]

    def cut(self) -> list[list[float]]:
        """The same in pieces of a week, the latest first."""
        ends, week = self.ends(), round(7 * 86400 / STEP)
        return [ends[max(0, last - week) : last] for last in range(len(ends), 0, -week)]

    def show(self) -> str:
        """Both ends, in local time."""
        return f"{_show(self.since, self.zone)} to {_show(self.until, self.zone)} ({self.zone})"

    def nothing_sampled(self) -> str:
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


class Named(Struct, frozen=True):
    """A server that a source knows. name: unique; service, host: empty if it has none."""

    name: str
    service: str
    host: str


Server = TypeVar("Server", bound=Named)

_MOST_LISTED = 20

MOST_RECORDS = 300_000
"""The most quarters of an hour of all servers together: 34 servers over 90 days, in 2 GB with four workers each."""


def select_servers(
    found: Sequence[Server], servers: Sequence[str], services: Sequence[str], quarters: int
) -> list[Server]:
    """The servers of these names, and those of these services; all without names. Raises HeadroomError if one of the
    names is unknown, or if so many servers over so many quarters of an hour would not fit into memory."""
    for kind, asked, known in (
        ("server", servers, sorted({server.name for server in found})),
        ("service", services, sorted({server.service for server in found if server.service})),
    ):
        for name in asked:
            if name not in known:
                raise _unknown(kind, name, known)
    is_all = not servers and not services
    chosen = [each for each in found if is_all or each.name in servers or each.service in services]
    if len(chosen) * quarters > MOST_RECORDS:
        raise HeadroomError(
            f"{len(chosen)} servers over {quarters // 96} days are too much at once: choose up to "
            f"{MOST_RECORDS // quarters} with --service or --server, or a shorter --range"
        )
    return chosen


def _unknown(kind: str, name: str, known: Sequence[str]) -> HeadroomError:
    near = difflib.get_close_matches(name, known, 1)
    listed = ", ".join(known[:_MOST_LISTED]) + (", ..." if len(known) > _MOST_LISTED else "")
    hint = f"; did you mean {near[0]}?" if near else ""
    return HeadroomError(f"no {kind} {name} in this range{hint}", [f"It has: {listed}" if known else "It has none."])


CLOCK_SECONDS = 60.0
"""Clocks that differ by less are as good as equal for quarters of an hour."""

_NOTABLE = 0.02
"""The part of the range that may be missing without a word."""

_ENOUGH, _SAME, _NOTHING = 8, 0.02, 1e-6
"""Quarters of an hour, and the relative and absolute differences between two scrapes of one counter."""


def list_problems(servers: Sequence[ServerHistory], span: TimeRange) -> list[str]:
    return [*_without_data(servers, span), *_twice(servers)]


def describe_clock(ahead: float, whose: str) -> str:
    if abs(ahead) < CLOCK_SECONDS:
        return ""
    way = "ahead of" if ahead > 0 else "behind"
    known = abs(ahead) if abs(ahead) < 60 else round(abs(ahead), -1)
    return f"The clock of {whose} is {duration(known)} {way} this machine's. All times here are by that clock."


def _without_data(servers: Sequence[ServerHistory], span: TimeRange) -> Iterator[str]:
    for server in servers:
        known, missing = len(server.quarters), span.quarters - len(server.quarters)
        if not known:
            yield f"{server.server}: no quarter of an hour of the range was sampled for at least half of it."
        elif missing > _NOTABLE * span.quarters:
            first, last = min(server.quarters) - STEP, max(server.quarters)
            ends = f"from {_show(first, span.zone)} to {_show(last, span.zone)}"
            yield (
                f"{server.server}: no data for {duration(missing * STEP)} of {duration(span.quarters * STEP)}; "
                f"it has data {ends}, {100 * known * STEP / (last - first):.0f} % of that time."
            )


def _twice(servers: Sequence[ServerHistory]) -> Iterator[str]:
    """Servers of one host with the same load: one server, recorded twice."""
    for one, other in combinations(servers, 2):
        common = sorted(one.quarters.keys() & other.quarters) if one.host and one.host == other.host else []
        loads = [(_load_of(one.quarters[end]), _load_of(other.quarters[end])) for end in common]
        if len(loads) < _ENOUGH or not any(mine[0] for mine, _ in loads):
            continue
        # Servers that only answer health checks have the same requests, but not the same threads in service.
        if all(
            abs(a - b) <= _SAME * abs(b) + _NOTHING for mine, others in loads for a, b in zip(mine, others, strict=True)
        ):
            yield (
                f"{one.server} and {other.server} have the same load: if that is one server, recorded twice, "
                "choose one of the two with --server, or every figure of the service counts it twice."
            )


def _load_of(record: Record) -> tuple[float, float]:
    """Requests per second, and threads in service."""
    return count_requests(record) / record.window.seconds, mean_busy(record) or 0.0


def _show(time: float, zone: str) -> str:
    return f"{datetime.fromtimestamp(time, ZoneInfo(zone)):%Y-%m-%d %H:%M}"
