"""Holds the data on the screen at one moment, and arranges its servers: as a sorted list, or as a tree.

The tree has emperors, their vassals, and the vassals' servers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct, field

from uwsgi_headroom.analysis.verdict import Status
from uwsgi_headroom.documents.emperor_router import Vassal
from uwsgi_headroom.documents.schema import Server, State, Summary
from uwsgi_headroom.top.feeds import NO_TREND, Trend

Key = tuple[int, str]
"""Identifies a server: index of its feed, and its name in that feed."""

Family = Mapping[Key, Server]
"""The documents for the tree of emperors and vassals."""


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
    family: Family = field(default_factory=dict)
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


def arrange_entries(
    entries: Sequence[ServerEntry], text: str = "", sort: str = "urgency", *, reverse: bool = False
) -> list[ServerEntry]:
    """Filter and sort servers. Figures sort largest first and unknown last, everything else ascending."""
    shown = [entry for entry in entries if matches(entry.summary, text)]
    figure = _FIGURES.get(sort)
    if figure is None:
        key = urgency_key if sort == "urgency" else lambda summary: natural_key(summary.name)
        return sorted(shown, key=lambda entry: key(entry.summary), reverse=reverse)
    return sort_by_figure(shown, lambda entry: figure(entry.summary), descending=not reverse)


T = TypeVar("T")


def sort_by_figure(rows: Sequence[T], figure: Callable[[T], float | None], *, descending: bool) -> list[T]:
    """Sort rows by a figure. Rows without one are last, in either direction."""
    known = [row for row in rows if figure(row) is not None]
    unknown = [row for row in rows if figure(row) is None]
    return sorted(known, key=lambda row: figure(row) or 0.0, reverse=descending) + unknown


def matches(summary: Summary, text: str) -> bool:
    """Whether a server's name, address, state or status contains a text, regardless of case."""
    words = f"{summary.name} {summary.address} {summary.state} {summary.status}"
    return text.casefold() in words.casefold()


class Branch(Struct, frozen=True):
    entry: ServerEntry | None
    """The server; None for a vassal whose stats are not read."""
    name: str
    state: str
    vassal: Vassal | None
    """The data of its emperor; None for a throttled vassal, which has no process."""
    depth: int
    """0 for servers that no emperor runs."""


def grow_tree(entries: Sequence[ServerEntry], family: Family) -> list[Branch]:
    """Build the tree. A server is below an emperor if one of the emperor's vassals has the server's PID, else at the
    root.

    PIDs are compared only within one host: between servers of one feed whose documents name the same host.
    """
    parents = {
        entry.key: parent.key
        for entry in entries
        for parent in entries
        if entry.key != parent.key and _is_vassal(entry, parent, family)
    }
    roots = [entry for entry in entries if not _hangs_below_a_root(entry.key, parents)]
    roots.sort(key=lambda entry: not any(parent == entry.key for parent in parents.values()))
    children: dict[Key, list[ServerEntry]] = {}
    for entry in entries:
        if entry not in roots:
            children.setdefault(parents[entry.key], []).append(entry)
    return [branch for root in roots for branch in _grow(root, None, 0, children, family)]


def vassal_state(vassal: Vassal) -> str:
    states = ("cursed", vassal.cursed), ("loyal", vassal.loyal), ("accepting", vassal.accepting)
    return next((name for name, holds in (*states, ("ready", vassal.ready)) if holds), "starting")


def _hangs_below_a_root(key: Key, parents: Mapping[Key, Key]) -> bool:
    """Whether a server has a parent. Servers that wrong PIDs make each other's parents count as roots."""
    seen = {key}
    while key in parents:
        key = parents[key]
        if key in seen:
            return False
        seen.add(key)
    return len(seen) > 1


def _is_vassal(entry: ServerEntry, parent: ServerEntry, family: Family) -> bool:
    if entry.key[0] != parent.key[0] or entry.key not in family or parent.key not in family:
        return False
    emperor = family[parent.key]
    mine, theirs = family[entry.key].identity, emperor.identity
    if mine is None or mine.pid is None or emperor.emperor is None:
        return False
    same_host = theirs is None or theirs.host is None or mine.host == theirs.host
    began_it = theirs is None or theirs.pid is None or mine.emperor_pid in (None, theirs.pid)
    return same_host and began_it and any(vassal.pid == mine.pid for vassal in emperor.emperor.vassals)


def _grow(
    entry: ServerEntry,
    vassal: Vassal | None,
    depth: int,
    children: Mapping[Key, Sequence[ServerEntry]],
    family: Family,
) -> Iterator[Branch]:
    name = entry.summary.name
    yield Branch(entry, name, vassal_state(vassal) if vassal else "", vassal, depth)
    document = family.get(entry.key)
    emperor = document.emperor if document else None
    if emperor is None:
        return
    for each in sorted(emperor.vassals, key=lambda each: natural_key(each.name)):
        servers = [child for child in children.get(entry.key, ()) if _master_pid(child.key, family) == each.pid]
        for child in servers:
            yield from _grow(child, each, depth + 1, children, family)
        if not servers:
            yield Branch(None, each.name, vassal_state(each), each, depth + 1)
    for throttled in sorted(emperor.throttled, key=lambda each: natural_key(each.name)):
        yield Branch(None, throttled.name, "throttled", None, depth + 1)


def _master_pid(key: Key, family: Family) -> int | None:
    identity = family[key].identity
    return identity.pid if identity else None
