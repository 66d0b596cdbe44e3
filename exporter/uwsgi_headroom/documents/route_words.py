"""Writes for people which routes hold the busy threads, from a server's document."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.documents.routes import Route
from uwsgi_headroom.words.formats import duration, percent

_MOST = 3
_LEAST_SHARE = 0.03


def describe_routes(routes: Sequence[Route]) -> list[str]:
    """Write the routes with the most busy threads, such as `POST /export 61 % of the busy threads, oldest 14 s` and
    `GET / 20 %`; empty if no thread was busy. The names are not escaped."""
    shown = [route for route in routes if route.share >= _LEAST_SHARE][:_MOST]
    more = len(routes) - len(shown)
    parts = [_describe(route, " of the busy threads" if route is shown[0] else "") for route in shown]
    return [*parts, f"{more} more"] if shown and more else parts


def _describe(route: Route, of: str) -> str:
    oldest = "" if route.oldest_seconds is None else f", oldest {duration(route.oldest_seconds)}"
    return f"{route.route} {percent(route.share)}{of}{oldest}"
