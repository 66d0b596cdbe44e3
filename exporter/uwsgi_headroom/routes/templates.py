"""Templates of paths that an operator configures, such as `/orders/{id}`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from uwsgi_headroom.errors import ConfigError
from uwsgi_headroom.routes.bounds import MOST_SEGMENTS, MOST_TEMPLATES

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
