"""Computes which routes hold the busy threads, and puts that into a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.history.window import RouteWindow
from uwsgi_headroom.record import ServerRecord
from uwsgi_headroom.routes import OTHER_ROUTE
from uwsgi_headroom.same_fields import given
from uwsgi_headroom.words.formats import duration
from uwsgi_headroom.words.template import fill


class RouteFigures(Struct, frozen=True):
    """Which routes hold the busy threads in a window."""

    threads: Mapping[str, float]
    """Mean busy threads of each route."""
    total: float
    """Mean busy threads of all routes."""

    def share(self, route: str) -> float:
        """The share of a route in the busy threads, 0 to 1."""
        return ratio(self.threads.get(route), self.total) or 0.0


def compute_routes(window: RouteWindow | None) -> RouteFigures | None:
    """The figures of a window; None without routes."""
    if window is None:
        return None
    threads = {route: seconds / window.observed_seconds for route, seconds in window.seconds.items()}
    return RouteFigures(threads, sum(threads.values()))


def find_ages(server: ServerRecord) -> dict[str, list[float | None]]:
    ages: dict[str, list[float | None]] = {}
    for worker in server.workers:
        for thread, route in worker.routes.items():
            ages.setdefault(route, []).append(worker.ages.get(thread))
    return ages


def oldest(ages: list[float | None]) -> float | None:
    """The greatest known age; None if none is known."""
    return max((age for age in ages if age is not None), default=None)


ROUTE = " `{route}` holds {share:percent} of all busy threads[age? ; its oldest request is {age} old]."


def describe_route(routes: RouteFigures | None, server: ServerRecord, route: str | None = None) -> str:
    """A sentence about a route, or the one that holds most threads, with a space before it; empty without a name."""
    if routes is None:
        return ""
    named = [name for name in routes.threads if name != OTHER_ROUTE]
    route = route or max(named, key=routes.share, default=OTHER_ROUTE)
    if route == OTHER_ROUTE or not routes.share(route):
        return ""
    age = oldest(find_ages(server).get(route, []))
    return fill(ROUTE, {"route": route, "share": routes.share(route), "age": given(age, duration)})


def describe_stuck_route(routes: RouteFigures | None, server: ServerRecord, least_seconds: float) -> str:
    """A sentence about the route with the most requests that are at least this old, as `describe_route` writes it."""
    stuck = {
        route: sum(age is not None and age >= least_seconds for age in ages)
        for route, ages in find_ages(server).items()
        if route != OTHER_ROUTE
    }
    most = max((route for route in stuck if stuck[route]), key=stuck.__getitem__, default=OTHER_ROUTE)
    return describe_route(routes, server, most)
