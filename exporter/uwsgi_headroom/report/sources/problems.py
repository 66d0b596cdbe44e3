"""Describes what is missing or doubtful in the data of a review, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np

from uwsgi_headroom.report.columns import STEP, ServerData
from uwsgi_headroom.words.formats import duration

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
