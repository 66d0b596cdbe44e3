"""Filters and sorts the list of servers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from uwsgi_headroom.analysis.verdict import Status
from uwsgi_headroom.documents.schema import State, Summary
from uwsgi_headroom.top.model import ServerEntry

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


def arrange_entries(
    entries: Sequence[ServerEntry], text: str = "", sort: str = "urgency", *, reverse: bool = False
) -> list[ServerEntry]:
    """Filter and sort servers. Figures sort largest first and unknown last, everything else ascending."""
    shown = [entry for entry in entries if matches(entry.summary, text)]
    figure = _FIGURES.get(sort)
    if figure is None:
        key = urgency_key if sort == "urgency" else lambda summary: natural_key(summary.name)
        return sorted(shown, key=lambda entry: key(entry.summary), reverse=reverse)
    known = [entry for entry in shown if figure(entry.summary) is not None]
    unknown = [entry for entry in shown if figure(entry.summary) is None]
    return sorted(known, key=lambda entry: figure(entry.summary) or 0.0, reverse=not reverse) + unknown


def matches(summary: Summary, text: str) -> bool:
    """Whether a server's name, address, state or status contains a text, regardless of case."""
    words = f"{summary.name} {summary.address} {summary.state} {summary.status}"
    return text.casefold() in words.casefold()
