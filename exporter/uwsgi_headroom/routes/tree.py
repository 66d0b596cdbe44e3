"""The tree of the named paths of one server. Its memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.routes.bounds import FORGET_SECONDS, MOST_NODES, MOST_VALUES
from uwsgi_headroom.routes.segments import ANY, PLACEHOLDERS

_FORGET_INTERVAL = 60.0  # seconds between two searches for names to forget, while the tree is full


class _Node:
    """The place behind one segment. seen_at: monotonic seconds. unnamed: values seen here that are not named.
    has_many: these were MOST_VALUES once. has_overflowed: so were the names, so no value has a name here."""

    __slots__ = ("children", "has_many", "has_overflowed", "seen_at", "unnamed")

    def __init__(self, at: float) -> None:
        self.children: dict[str, _Node] = {}
        self.unnamed: set[str] = set()
        self.has_many = self.has_overflowed = False
        self.seen_at = at

    def names(self) -> list[str]:
        return [name for name in self.children if name not in PLACEHOLDERS]

    def find(self, segment: str) -> str:
        """The name of a segment here: itself, or `{any}`."""
        if segment in self.children or segment in PLACEHOLDERS:
            return segment
        return ANY if self.has_many else segment


class PathTree:
    """The named paths. `cuts` counts how often names were removed. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._root = _Node(0.0)
        self._nodes = 1
        self._forget_at = 0.0
        self.cuts = 0

    def wanted(self, segments: Sequence[str]) -> tuple[str, ...]:
        """The path under which these segments would be named: with `{any}` where a segment has many values."""
        names = []
        node: _Node | None = self._root
        for segment in segments:
            name = node.find(segment) if node else segment
            names.append(name)
            node = node.children.get(name) if node else None
        return tuple(names)

    def fold(self, segments: Sequence[str], at: float) -> tuple[str, ...] | None:
        """The named path of these segments; None if they are not named. Notes that it was seen."""
        names = []
        node = self._root
        for segment in segments:
            name = node.find(segment)
            child = node.children.get(name)
            if child is None:
                if name not in PLACEHOLDERS:
                    self._note_unnamed(node, name)
                return None
            child.seen_at = at
            names.append(name)
            node = child
        return tuple(names)

    def add(self, segments: Sequence[str], at: float) -> tuple[str, ...] | None:
        """Name a path; returns it with `{any}` where the names have overflowed, or None if the tree is full."""
        names = []
        node = self._root
        for segment in segments:
            name = segment
            if segment not in PLACEHOLDERS and segment not in node.children and not self._has_room(node, at):
                name = ANY
            child = node.children.get(name) or self._grow(node, name, at)
            if child is None:
                return None
            child.seen_at = at
            names.append(name)
            node = child
        return tuple(names)

    def is_named(self, names: Sequence[str]) -> bool:
        """Whether a path that `add` returned is still named."""
        node: _Node | None = self._root
        for name in names:
            node = node.children.get(name) if node else None
        return node is not None

    def _note_unnamed(self, node: _Node, segment: str) -> None:
        node.unnamed.add(segment)
        if len(node.unnamed) >= MOST_VALUES:
            node.unnamed.clear()
            node.has_many = True

    def _has_room(self, node: _Node, at: float) -> bool:
        """Whether one more segment can have a name here. If not, the others lose theirs."""
        if node.has_overflowed:
            return False
        names = node.names()
        if len(names) < MOST_VALUES:
            return True
        oldest = min(names, key=lambda name: node.children[name].seen_at)
        if at - node.children[oldest].seen_at >= FORGET_SECONDS:
            self._cut(node, oldest)
            return True
        node.has_many = node.has_overflowed = True
        for name in names:
            self._cut(node, name)
        return False

    def _grow(self, node: _Node, name: str, at: float) -> _Node | None:
        if self._nodes >= MOST_NODES and at >= self._forget_at:
            self._forget_at = at + _FORGET_INTERVAL
            self._forget(self._root, at)
        if self._nodes >= MOST_NODES:
            return None
        self._nodes += 1
        node.unnamed.discard(name)
        child = node.children[name] = _Node(at)
        return child

    def _forget(self, node: _Node, at: float) -> None:
        for name, child in list(node.children.items()):
            if at - child.seen_at >= FORGET_SECONDS:
                self._cut(node, name)
            else:
                self._forget(child, at)

    def _cut(self, node: _Node, name: str) -> None:
        self._nodes -= sum(1 for _ in _walk(node.children.pop(name)))
        self.cuts += 1


def _walk(node: _Node) -> Iterator[_Node]:
    yield node
    for child in node.children.values():
        yield from _walk(child)
