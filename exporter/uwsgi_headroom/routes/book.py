"""Gives the requests of one server the names of their routes, and a number to each route.

Rules of this module:

* A path is named once it was seen in SIGHTINGS samples. Until then its requests are `other`, so a path that was
  requested once is never shown.
* A segment of which MOST_VALUES values came without being named is `{any}` for values without a name.
* A segment has MOST_VALUES names. If one more would be named, all become `{any}`, until the exporter restarts: their
  routes are forgotten and never shown again.
* There are MOST_ROUTES routes; the rest is `other`. A route that was not seen for FORGET_SECONDS makes room for a new
  one.
* A route keeps its meaning while it has its name. When its number passes to another route, the generation of the
  number changes.
* All memory is bounded, whatever clients request: routes, names (`PathTree`) and candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from msgspec import Struct

from uwsgi_headroom.routes.shape import (
    ANY,
    FORGET_SECONDS,
    MOST_CANDIDATES,
    MOST_NODES,
    MOST_ROUTES,
    MOST_SIGHTED,
    MOST_VALUES,
    OTHER,
    PLACEHOLDERS,
    SIGHTINGS,
    Shape,
)

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
                    node.unnamed.add(name)
                    if len(node.unnamed) >= MOST_VALUES:
                        node.unnamed.clear()
                        node.has_many = True
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


OTHER_ROUTE = "other"
"""The name of the route of all requests that have no route of their own. Its number is 0."""


class RouteBook:
    """The routes of one server.

    names: the routes by number; "" is a number that is free. generations: for each number, how often it was given.
    """

    def __init__(self) -> None:
        self.names: tuple[str, ...] = (OTHER_ROUTE,)
        self.generations: tuple[int, ...] = (1,)
        self._tree = PathTree()
        self._numbers: dict[Shape, int] = {}
        self._seen_at: dict[Shape, float] = {}
        self._candidates: dict[Shape, int] = {}  # the number of samples with it; the one not seen for longest is first
        self._cuts = 0

    def find_numbers(self, shapes: Iterable[Shape], at: float) -> dict[Shape, int]:
        """Return the number of the route of each shape in one sample, at the monotonic time `at`."""
        distinct = dict.fromkeys(shapes)
        unnamed: dict[Shape, None] = {}
        shown_as_any: dict[Shape, None] = {}
        for shape in distinct:
            if shape == OTHER:
                continue
            wanted = shape if shape.is_template else shape._replace(segments=self._tree.wanted(shape.segments))
            if self._find(shape, at) is None:
                unnamed[shape] = unnamed[wanted] = None
            elif wanted != shape:
                shown_as_any[shape] = None
        for shape in islice(chain(unnamed, shown_as_any), MOST_SIGHTED):
            self._sight(shape, at)
        return {shape: self._find(shape, at) or 0 for shape in distinct}

    def _find(self, shape: Shape, at: float) -> int | None:
        """Return the number of a shape's route, and note that it was seen; None if it has none."""
        segments = shape.segments if shape.is_template else self._tree.fold(shape.segments, at)
        if segments is None or shape == OTHER:
            return None
        route = shape._replace(segments=segments)
        number = self._numbers.get(route)
        if number is not None:
            self._seen_at[route] = at
        return number

    def _sight(self, shape: Shape, at: float) -> None:
        """Count one more sample with a shape, and name its route if these are enough."""
        sightings = self._candidates.pop(shape, 0) + 1
        if sightings < SIGHTINGS and not shape.is_template:
            if len(self._candidates) >= MOST_CANDIDATES:
                del self._candidates[next(iter(self._candidates))]
            self._candidates[shape] = sightings
            return
        segments = shape.segments if shape.is_template else self._tree.add(shape.segments, at)
        if self._cuts != self._tree.cuts:
            self._cuts = self._tree.cuts
            unnamed = (route for route in self._numbers if not self._tree.is_named(route.segments))
            self._free([route for route in unnamed if not route.is_template])
        if segments is not None:
            self._give_number(shape._replace(segments=segments), at)

    def _give_number(self, route: Shape, at: float) -> None:
        if route in self._numbers:
            return
        if len(self._numbers) >= MOST_ROUTES:
            oldest = min(self._seen_at, key=lambda route: self._seen_at[route])
            if at - self._seen_at[oldest] < FORGET_SECONDS:
                return
            self._free([oldest])
        names, generations = list(self.names), list(self.generations)
        if "" not in names:
            names.append("")
            generations.append(0)
        number = names.index("")
        names[number] = f"{route.method} /{'/'.join(route.segments)}"
        generations[number] += 1
        self.names, self.generations = tuple(names), tuple(generations)
        self._numbers[route], self._seen_at[route] = number, at

    def _free(self, routes: Iterable[Shape]) -> None:
        names = list(self.names)
        for route in routes:
            names[self._numbers.pop(route)] = ""
            del self._seen_at[route]
        self.names = tuple(names)


class ServedRoutes(Struct, frozen=True):
    """The routes in service at one sample.

    names, generations: as in `RouteBook`, at the time of the sample. numbers: of the route in each busy thread, by
    worker id and thread number.
    """

    names: tuple[str, ...]
    generations: tuple[int, ...]
    numbers: Mapping[int, Mapping[int, int]]

    def of_worker(self, worker_id: int) -> dict[int, str]:
        """Return the route of each busy thread of a worker, by thread number."""
        return {thread: self.names[number] for thread, number in self.numbers.get(worker_id, {}).items()}
