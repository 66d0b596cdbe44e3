"""Builds the section about the routes that hold the busy threads."""

from __future__ import annotations

from msgspec import Struct

from uwsgi_headroom.analysis.routes import RouteFigures, find_ages, oldest
from uwsgi_headroom.record import ServerRecord


class Route(Struct, frozen=True, kw_only=True):
    """A route: a method and a path in which values are placeholders, such as `POST /orders/{id}`; or `other`. threads:
    mean number of busy threads with its requests, over the window; share: of all busy threads; in_service: its requests
    in service at the last reading; oldest_seconds: the age of the oldest of these, null if there is none or uWSGI does
    not report it. The share of the requests is not known."""

    route: str
    threads: float
    share: float
    in_service: int
    oldest_seconds: float | None


def build_routes(figures: RouteFigures, server: ServerRecord) -> tuple[Route, ...]:
    """Build the section from the figures of a window, which ends with this record: routes that have busy threads in it
    or now, most busy threads first."""
    ages = find_ages(server)
    routes = sorted(figures.threads, key=lambda route: (-figures.threads[route], route))
    return tuple(
        Route(
            route=route,
            threads=figures.threads[route],
            share=figures.share(route),
            in_service=len(ages.get(route, ())),
            oldest_seconds=oldest(ages.get(route, [])),
        )
        for route in routes
        if figures.threads[route] or route in ages
    )
