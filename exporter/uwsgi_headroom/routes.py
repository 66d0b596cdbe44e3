"""Turns the method and path of requests in service into routes, such as `POST /orders/{id}`. Opt-in.

A path is other people's data. Only a method and a path come in. First they are reduced to a shape, which drops what
identifies a person, a record or a session; only its result is stored. A segment that reads like a name, such as
`orders`, stays; a value becomes a placeholder. If the path matches a template that an operator has configured, such as
`/orders/{id}`, the template is its shape.

Then the shapes of one server get the names of routes, and a number each:

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

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from uwsgi_headroom.errors import ConfigError

LONGEST_PATH = 1024
"""The most bytes of a path; a longer one is `other`."""

MOST_SEGMENTS = 8
"""The most segments of a path; one with more is `other`."""

LONGEST_NAME = 32
"""The most characters of a segment that is shown. Longer ones are titles or tokens."""

MOST_PATHS = 2000
"""The most different paths in one document that are reduced to a shape, which takes up to 40 microseconds each.
Requests with further ones are `other`."""

SIGHTINGS = 3
"""In how many samples a path must have been seen before it is named."""

MOST_ROUTES = 50
"""The most routes besides `other`: each is a time series."""

MOST_VALUES = 20
"""The most names of one segment. If one more would be named there, all become `{any}`."""

MOST_TEMPLATES = 50
"""The most templates in the configuration."""

FORGET_SECONDS = 3600
"""After this time, in seconds, a name or route that was not seen is forgotten when another one needs its place. The
history in memory covers the same time."""

MOST_NODES = 1000
"""The most places in the tree of named paths of one server."""

MOST_CANDIDATES = 500
"""The most reduced paths of one server that wait for their name. The one that was not seen for longest gives way."""

MOST_SIGHTED = 100
"""The most paths without a name that are counted in one sample, which takes some 20 microseconds each."""


METHODS = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT"))

_is_plain = re.compile(rb"[A-Za-z0-9._~/-]+").fullmatch


class Shape(NamedTuple):
    """The method and path of a request, with placeholders for values. is_template: the segments are those of a
    configured template. `OTHER` is the shape of all requests that have no route of their own."""

    method: str
    segments: tuple[str, ...]
    is_template: bool = False


OTHER = Shape("", ())


def make_shape(method: bytes, path: bytes, templates: Templates, classified: SegmentCache) -> Shape:
    """Return the shape of a request. path: as received, without the query; slashes at its end or repeated ones make no
    difference. classified: segments of the same document."""
    if method not in METHODS or not path.startswith(b"/") or len(path) > LONGEST_PATH:
        return OTHER
    segments = [segment for segment in path.decode("latin-1").split("/") if segment]
    if len(segments) > MOST_SEGMENTS or "." in segments or ".." in segments:
        return OTHER
    if template := templates.match(segments):
        return Shape(method.decode(), template, is_template=True)
    if not _is_plain(path):
        return OTHER
    return Shape(method.decode(), tuple([classified[segment] for segment in segments]))


ID, UUID, HASH, TOKEN, ANY = "{id}", "{uuid}", "{hash}", "{token}", "{any}"
"""Placeholders: a number or date; a UUID; hexadecimal digits; any other text that does not read like a name; and any
value of a segment that has too many of them."""

PLACEHOLDERS = frozenset({ID, UUID, HASH, TOKEN, ANY})

_LONGEST_HASH = 128  # hexadecimal digits of SHA-512
_MOST_DIGITS = 3  # as in `v1.2.3`

_match_number = re.compile(r"[\d._~-]*\d[\d._~-]*", re.ASCII).fullmatch
_match_uuid = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE).fullmatch
_match_hash = re.compile(r"(?=.*\d)[0-9a-f]{8,}|[0-9a-f]{16,}", re.IGNORECASE).fullmatch

# Words with at most two digits at an end: `orders`, `v2`, `FAQ`, `Orders`, `getOrder`, `2fa`, `2`.
_WORD = (
    r"(?:[a-z]{1,20}\d{0,2}|[A-Z]{1,10}\d{0,2}|[A-Z][a-z]{1,20}|[A-Z]?[a-z]{2,20}(?:[A-Z][a-z]{1,19}){1,4}"
    r"|\d{1,2}[a-z]{1,4}|\d{1,2})"
)
_match_name = re.compile(rf"[._-]?{_WORD}(?:[._-]{_WORD}){{0,7}}").fullmatch

_find_digits = re.compile(r"\d", re.ASCII).findall
_find_no_word = re.compile(r"[bcdfghjklmnpqrstvwxz]{6}", re.IGNORECASE).search


class SegmentCache(dict[str, str]):
    """Classified segments of one document, by their text. Dropped with the document."""

    def __missing__(self, segment: str) -> str:
        found = self[segment] = classify_segment(segment)
        return found


def classify_segment(segment: str) -> str:
    """Return the segment if it reads like a name, else a placeholder. The segment has only plain path characters."""
    if segment.isdigit():
        return ID
    if len(segment) > _LONGEST_HASH:
        return TOKEN
    if _match_number(segment):
        return ID
    if _match_uuid(segment):
        return UUID
    if _match_hash(segment):
        return HASH
    return segment if _is_name(segment) else TOKEN


def _is_name(segment: str) -> bool:
    return (
        len(segment) <= LONGEST_NAME
        and _match_name(segment) is not None
        and len(_find_digits(segment)) <= _MOST_DIGITS
        and _find_no_word(segment) is None  # six consonants in a row
        and (3 * sum(map(str.isupper, segment)) <= len(segment) or segment.isupper())  # `getUserById`, not `aBcDeFg`
    )


_match_segment = re.compile(r"\{[A-Za-z_]\w{0,31}\}|[A-Za-z0-9._~:@!$&'()*+,=-]{1,64}", re.ASCII).fullmatch

_EXPECTED = "write a path such as /orders/{id}, with a name in braces for each segment that varies"


class Templates:
    """Templates, in the order in which they are tried. Literal segments are compared exactly; a name in braces stands
    for one segment of any characters, which is dropped."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._by_length: dict[int, list[tuple[str, ...]]] = {}
        for text in texts:
            segments = tuple(text.strip("/").split("/"))
            self._by_length.setdefault(len(segments), []).append(segments)

    def match(self, segments: Sequence[str]) -> tuple[str, ...] | None:
        for template in self._by_length.get(len(segments), ()):
            if all(own == given or own[0] == "{" for own, given in zip(template, segments, strict=True)):
                return template
        return None


def parse_template(text: str, where: str) -> str:
    """Check a template; returns it without a trailing slash. Raises ConfigError, which names `where` it is set."""
    slash, *segments = text.strip().removesuffix("/").split("/")
    if slash or not segments or not all(_match_segment(segment) for segment in segments):
        raise ConfigError(f"{where}: {text!r} is not the template of a route; {_EXPECTED}")
    if len(segments) > MOST_SEGMENTS:
        raise ConfigError(f"{where}: {text!r} has {len(segments)} segments; {MOST_SEGMENTS} are the most")
    if any(segment in (".", "..") for segment in segments):
        raise ConfigError(f"{where}: {text!r} has a segment {'..' if '..' in segments else '.'}, which no route has")
    return "/" + "/".join(segments)


def refuse_too_many(templates: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the templates. Raises ConfigError if there are too many, or one is set twice."""
    for number, template in enumerate(templates):
        if template in templates[:number]:
            raise ConfigError(f"{where}: the template {template!r} is set twice")
    if len(templates) > MOST_TEMPLATES:
        raise ConfigError(f"{where}: {len(templates)} templates are too many; {MOST_TEMPLATES} are the most")
    return tuple(templates)


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
        names: list[str] = []
        node = self._root
        for place, segment in enumerate(segments):
            name = node.find(segment)
            if name not in node.children:
                return (*names, name, *segments[place + 1 :])
            names.append(name)
            node = node.children[name]
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
        node = self._root
        for name in names:
            if name not in node.children:
                return False
            node = node.children[name]
        return True

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


@dataclass(frozen=True, slots=True)
class ServedRoutes:
    """The routes in service at one sample.

    names, generations: as in `RouteBook`, at the time of the sample. numbers: of the route in each busy thread, by
    worker id and thread number.
    """

    names: tuple[str, ...]
    generations: tuple[int, ...]
    numbers: Mapping[int, Mapping[int, int]]

    def of_worker(self, worker_id: int) -> dict[int, str]:
        return {thread: self.names[number] for thread, number in self.numbers.get(worker_id, {}).items()}
