"""Finds the method and the path among the variables of a request. Nothing else of them is looked at.

The variables stay the bytes of the document: no string is built of any other one. uWSGI escapes each quotation mark
inside a variable, so one that has no backslash before it and a name behind it begins a variable.
"""

from __future__ import annotations

import re

from uwsgi_headroom.routes.bounds import LONGEST_PATH, MOST_PATHS
from uwsgi_headroom.routes.shape import OTHER, SegmentCache, Shape, Templates, make_shape

_METHOD, _PATH, _URI = b'"REQUEST_METHOD=', b'"PATH_INFO=', b'"REQUEST_URI='

_match_value = re.compile(rb'([^"?\\]*)["?]').match
_UNUSABLE = b"?"

_MOST_FALSE = 8
"""How many look-alikes inside other variables are passed over; a client could send thousands."""


class ShapeFinder:
    """Finds the shapes of the requests in one document. A path that repeats is reduced only once; this object, which
    has the paths, is dropped with the document."""

    def __init__(self, templates: Templates) -> None:
        self._templates = templates
        self._classified = SegmentCache()
        self._shapes: dict[tuple[bytes, bytes], Shape] = {}

    def find(self, variables: bytes) -> Shape:
        """Return the shape of a request from the JSON list of its variables. If a name is repeated, the first counts.

        After `MOST_PATHS` different paths in the document, the shape of a further one is `OTHER`.
        """
        method, path = _find(variables, _METHOD), _find(variables, _PATH)
        if path is None:
            path = _find(variables, _URI)
        if method is None or path is None:
            return OTHER
        key = method, path
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= MOST_PATHS:
                return OTHER
            shape = self._shapes[key] = make_shape(method, path or b"/", self._templates, self._classified)
        return shape


def _find(variables: bytes, name: bytes) -> bytes | None:
    """The value of a variable up to a question mark; None without the variable. A value that no path has, because it is
    too long or has escapes, is `_UNUSABLE`."""
    place = variables.find(name)
    for _ in range(_MOST_FALSE):
        if place < 0:
            return None
        if variables[place - 1 : place] != b"\\":
            start = place + len(name)
            match = _match_value(variables, start, start + LONGEST_PATH + 2)
            return match[1] if match else _UNUSABLE
        place = variables.find(name, place + 1)
    return _UNUSABLE
