"""Reduces the method and path of one request to its shape. Nothing else of the request is kept.

A segment that reads like a name, such as `orders`, stays; a value becomes a placeholder. If the path matches a template
that an operator has configured, such as `/orders/{id}`, the template is its shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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


def make_shape(method: bytes, path: bytes, templates: Templates, classified: SegmentCache | None = None) -> Shape:
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
    classified = SegmentCache() if classified is None else classified
    return Shape(method.decode(), tuple([classified[segment] for segment in segments]))


ID, UUID, HASH, TOKEN, ANY = "{id}", "{uuid}", "{hash}", "{token}", "{any}"
"""Placeholders: a number or date; a UUID; hexadecimal digits; any other text that does not read like a name; and any
value of a segment that has too many of them (`book`)."""

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
        """Return the segments of the first template that matches a path."""
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
