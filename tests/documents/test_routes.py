"""The documents about routes: the section of a server, and its history."""

from __future__ import annotations

from dataclasses import replace

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server
from uwsgi_headroom.routes.book import ServedRoutes

SECONDS = 20


def watched(names: tuple[str, ...] | None, seconds: int = SECONDS) -> ScriptedWatch:
    """A server with three busy threads of the first worker: two of the last route, one of `other`."""
    watch, server = ScriptedWatch(), Server(2, 4)
    for place in range(2 * seconds + 1):
        server.busy(3, 0)
        reading = server.read(place / 2)
        if names:
            last = len(names) - 1
            numbers = {1: {0: last, 1: 0, 2: last}}
            reading = replace(reading, routes=ServedRoutes(names, (1,) * len(names), numbers))
        watch.read(reading)
    return watch


def test_routes_are_listed_most_threads_first() -> None:
    """A route without busy threads in the window is left out."""
    routes = watched(("other", "GET /idle", "POST /export")).document().routes
    assert routes
    assert [(row.route, row.threads, round(row.share, 3), row.in_service) for row in routes] == [
        ("POST /export", 2.0, 0.667, 2),
        ("other", 1.0, 0.333, 1),
    ]
    assert {row.oldest_seconds for row in routes} == {None}


def test_off_they_are_null() -> None:
    """No section, and no history."""
    watch = watched(None)
    assert watch.document().routes is None
    assert watch.history().routes is None


def test_the_history_has_a_column_for_each_route() -> None:
    """Each is as long as the time, and a slice that was not sampled is null."""
    watch = watched(("other", "GET /idle", "POST /export"))
    history = watch.history(SECONDS, 5)
    assert history.routes
    assert history.routes.routes == ("other", "GET /idle", "POST /export")
    assert [len(column) for column in history.routes.threads] == [len(history.time)] * 3
    assert [set(column) for column in history.routes.threads] == [{1.0}, {0.0}, {2.0}]
