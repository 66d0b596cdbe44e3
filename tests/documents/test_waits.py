"""Documents about what requests wait for, and on which routes."""

import pytest
from msgspec.structs import replace

from tests.support.scripted_watch import ScriptedWatch
from tests.support.simulated_server import Server
from tests.support.windows import window, worker
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.wait_states import WaitFigures, compute_waits
from uwsgi_headroom.history.window import WaitWindow
from uwsgi_headroom.record import NO_WAITS, Waits
from uwsgi_headroom.routes import ServedRoutes

NOW = Waits(addresses={"postgres": "10.0.0.5:5432", "redis": "*:6379"})


def waits_of(requests: int, now: Waits | None) -> WaitFigures:
    """Ten seconds of 5.5 busy threads."""
    seconds = {"cpu": 10.0, "sleep": 5.0, "backend": 40.0}
    row = worker(1, requests, each=0.55)
    of = replace(window(10, row), waits=WaitWindow(10, 2.5, seconds, {"redis": 10.0, "postgres": 30.0}))
    return compute_waits(of, compute_flow(of), sample=now or NO_WAITS)


def test_most_threads_come_first():
    """Each state and backend has its part of a mean request."""
    waits = waits_of(100, NOW)
    assert [(row.state, row.threads, row.per_request) for row in waits.states] == [
        ("backend", 4, pytest.approx(0.4)),
        ("cpu", 1, pytest.approx(0.1)),
        ("sleep", 0.5, pytest.approx(0.05)),
    ]
    assert [(row.name, row.address, row.per_request) for row in waits.backends] == [
        ("postgres", "10.0.0.5:5432", pytest.approx(0.3)),
        ("redis", "*:6379", pytest.approx(0.1)),
    ]
    assert (waits.total, waits.disagreement) == (5.5, 0.25)


@pytest.mark.parametrize("now", [None, Waits(off="not permitted any more")])
def test_unknown_at_the_end(now):
    """Without addresses, the names and figures remain; without requests, times per request are null."""
    waits = waits_of(0, now)
    assert {row.per_request for row in [*waits.states, *waits.backends]} == {None}
    assert {row.address for row in waits.backends} == {""}


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


def test_routes_are_listed_most_threads_first():
    """One without busy threads is left out; each has a column of the history. Off, both are null."""
    routes = watched(("other", "GET /idle", "POST /export")).document().routes
    assert routes
    assert [(row.route, row.threads, round(row.share, 3), row.in_service) for row in routes] == [
        ("POST /export", 2.0, 0.667, 2),
        ("other", 1.0, 0.333, 1),
    ]
    assert {row.oldest_seconds for row in routes} == {None}
    watch = watched(None)
    assert watch.document().routes is None
    assert watch.history().routes is None
    watch = watched(("other", "GET /idle", "POST /export"))
    history = watch.history(SECONDS, 5)
    assert history.routes.routes == ("other", "GET /idle", "POST /export")
    assert [len(column) for column in history.routes.threads] == [len(history.time)] * 3
    assert [set(column) for column in history.routes.threads] == [{1.0}, {0.0}, {2.0}]
