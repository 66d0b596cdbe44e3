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
* All memory is bounded, whatever clients request: routes, names (`tree`) and candidates.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

from uwsgi_headroom.routes.bounds import FORGET_SECONDS, MOST_CANDIDATES, MOST_ROUTES, MOST_SIGHTED, SIGHTINGS
from uwsgi_headroom.routes.shape import OTHER, Shape
from uwsgi_headroom.routes.tree import PathTree

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
            self._free([route for route in self._numbers if not self._is_named(route)])
        if segments is not None:
            self._give_number(shape._replace(segments=segments), at)

    def _is_named(self, route: Shape) -> bool:
        return route.is_template or self._tree.is_named(route.segments)

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
