"""Builds the tree of emperors, their vassals and the vassals' servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from uwsgi_headroom.documents.emperor_router import Vassal
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.top.model import Key, ServerEntry
from uwsgi_headroom.top.server_order import natural_key

Family = Mapping[Key, Server]


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of the tree. entry: the server, None for a vassal whose stats are not read; vassal: its emperor's data,
    None for a throttled vassal, which has no process; depth: 0 for servers that no emperor runs."""

    entry: ServerEntry | None
    name: str
    state: str
    vassal: Vassal | None
    depth: int


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
    """Return the state of a vassal in one word."""
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
