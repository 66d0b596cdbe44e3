"""Builds the section about the routes that hold the busy threads, and its history."""

from __future__ import annotations

from msgspec import Struct, field

from uwsgi_headroom.analysis.routes import RouteFigures, find_ages, oldest
from uwsgi_headroom.history.route_time import RouteHour
from uwsgi_headroom.history.window import RouteWindow
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


class RouteHistory(Struct, frozen=True, kw_only=True):
    """The history of the routes. threads[i]: the mean number of busy threads with requests of routes[i]. A route that
    was not known yet has 0; `other` contains routes that were forgotten."""

    routes: tuple[str, ...] = ()
    threads: list[list[float | None]] = field(default_factory=list)


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


def begin_history(hour: RouteHour) -> RouteHistory:
    """Make an empty history of the present routes."""
    return RouteHistory(routes=hour.names, threads=[[] for _ in hour.names])


def list_threads(history: RouteHistory, window: RouteWindow | None) -> list[float | None]:
    """The mean busy threads of each route of a history in one window; None if they are not known there."""
    if window is None:
        return [None] * len(history.routes)
    return [window.seconds.get(route, 0.0) / window.observed_seconds for route in history.routes]
