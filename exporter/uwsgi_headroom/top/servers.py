"""Holds the data on the screen at one moment, and sorts its servers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from uwsgi_headroom.analysis.verdict import Status
from uwsgi_headroom.check.worker_table import sort_by_figure
from uwsgi_headroom.documents.schema import Server, State, Summary
from uwsgi_headroom.top.feeds import NO_TREND, Trend

Key = tuple[int, str]
"""Identifies a server: index of its feed, and its name in that feed."""


class ServerEntry(Struct, frozen=True):
    """A server in the list, as of `seen_at` (epoch seconds)."""

    key: Key
    summary: Summary
    seen_at: float = 0.0


class ScreenModel(Struct, frozen=True):
    entries: tuple[ServerEntry, ...] = ()
    """Every listed server."""
    server: Server | None = None
    """The document of the selected server."""
    trend: Trend = NO_TREND
    """The history of that server."""
    troubles: Mapping[int, str] = field(default_factory=dict)
    """Why a feed returned nothing new, by index of the feed. Its servers are then shown as last seen."""
    where: str = ""
    """The exporters and servers to which top is attached."""
    notice: str = ""
    """A temporary message."""
    complete: bool = True
    """Whether every feed has listed its servers."""


_DIGITS = re.compile(r"(\d+)")
_STATES: Mapping[State, int] = {"down": 0, "stale": 1, "up": 2}
_STATUSES: Mapping[Status, int] = {"critical": 0, "warning": 1, "unknown": 2, "ok": 3}

SERVER_SORTS = {"u": "urgency", "n": "name", "r": "throughput", "w": "response", "b": "busy"}
"""The keys that sort the list of servers."""

_FIGURES: Mapping[str, Callable[[Summary], float | None]] = {
    "throughput": lambda summary: summary.throughput,
    "response": lambda summary: summary.response_time,
    "busy": lambda summary: summary.observed,
}


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that orders numbers inside names by value: shop1, shop2, shop10."""
    parts = _DIGITS.split(name.casefold())
    return tuple((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts if part)


def urgency_key(summary: Summary) -> tuple[int, int, float, tuple[tuple[int, int, str], ...]]:
    """Return the default sort key: servers that are down first, then by status, headroom (least first) and name."""
    room = float("inf") if summary.headroom is None else summary.headroom
    return _STATES[summary.state], _STATUSES[summary.status], room, natural_key(summary.name)


def arrange_entries(entries: Sequence[ServerEntry], text: str = "", sort: str = "urgency") -> list[ServerEntry]:
    """Filter and sort servers. Figures sort largest first and unknown last, everything else ascending."""
    shown = [entry for entry in entries if matches(entry.summary, text)]
    figure = _FIGURES.get(sort)
    if figure is None:
        key = urgency_key if sort == "urgency" else lambda summary: natural_key(summary.name)
        return sorted(shown, key=lambda entry: key(entry.summary))
    return sort_by_figure(shown, lambda entry: figure(entry.summary))


def matches(summary: Summary, text: str) -> bool:
    """Whether a server's name, address, state or status contains a text, regardless of case."""
    words = f"{summary.name} {summary.address} {summary.state} {summary.status}"
    return text.casefold() in words.casefold()
