"""Reduces the method and path of one request to its shape. Nothing else of the request is kept."""

from __future__ import annotations

import re
from typing import NamedTuple

from uwsgi_headroom.routes.bounds import LONGEST_PATH, MOST_SEGMENTS
from uwsgi_headroom.routes.segments import SegmentCache
from uwsgi_headroom.routes.templates import Templates

METHODS = frozenset(
    (b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT"),
)

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
