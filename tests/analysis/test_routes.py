"""Which routes hold the busy threads: figures, and the sentence that findings have."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.support.simulated_server import EPOCH, Server
from tests.support.windows import the_example, window
from uwsgi_headroom.analysis.figures import compute_figures
from uwsgi_headroom.analysis.findings import Finding, collect_findings
from uwsgi_headroom.analysis.routes import compute_routes, describe_route, find_ages
from uwsgi_headroom.history.window import RouteWindow, Window
from uwsgi_headroom.reading import Reading, describe_server
from uwsgi_headroom.routes.book import ServedRoutes

AT = 1000.0
WINDOW = RouteWindow(10.0, {"other": 20.0, "GET /a": 19.0, "POST /export": 61.0})
NAMES = ("other", "GET /a", "POST /export")


def read(**threads: int) -> Reading:
    """A reading whose first worker serves these routes (by number), which began so many seconds ago (`s14=2`)."""
    server = Server(4, 8)
    ages = [int(name[1:]) for name in threads]
    server[1].request_starts = tuple(int(EPOCH + AT) - age for age in ages)
    server[1].busy = len(ages)
    numbers = {1: dict(enumerate(threads.values()))}
    return replace(server.read(AT), routes=ServedRoutes(NAMES, (1, 1, 1), numbers))


def findings(of: Window, reading: Reading, routes: RouteWindow | None) -> dict[str, Finding]:
    figures = compute_figures(of, describe_server(reading), routes=routes)
    return {finding.code: finding for finding in collect_findings(figures)}


def test_shares_are_of_the_busy_threads() -> None:
    """The mean number of threads in the window, and the share of all of them."""
    routes = compute_routes(WINDOW)
    assert routes
    assert routes.threads == {"other": 2.0, "GET /a": 1.9, "POST /export": 6.1}
    assert [routes.share(route) for route in (*NAMES, "never seen")] == pytest.approx([0.2, 0.19, 0.61, 0.0])
    idle = compute_routes(RouteWindow(10.0, {"other": 0.0}))
    assert idle
    assert idle.share("other") == 0
    assert compute_routes(None) is None


def test_ages_are_of_requests_in_service_now() -> None:
    """By route; a worker whose process is gone has none."""
    reading = read(s3=1, s14=2, s5=2)
    assert find_ages(describe_server(reading)) == {"GET /a": [3.0], "POST /export": [14.0, 5.0]}
    gone = replace(reading, host=replace(reading.host, processes={}))
    assert find_ages(describe_server(gone)) == {}
    assert find_ages(describe_server(replace(reading, routes=None))) == {}


def test_the_sentence() -> None:
    """The route with most threads, its share, and its oldest request, if any is in service."""
    routes = compute_routes(WINDOW)
    sentence = " `POST /export` holds 61 % of all busy threads"
    three = describe_server(read(s3=1, s14=2, s5=2))
    assert describe_route(routes, three) == f"{sentence}; its oldest request is 14 s old."
    assert describe_route(routes, describe_server(read(s3=1))) == f"{sentence}."
    assert describe_route(None, describe_server(read(s3=1))) == ""
    for nothing in ({"other": 9.0, "GET /a": 0.0}, {"other": 9.0}, {}):
        assert describe_route(compute_routes(RouteWindow(10.0, nothing)), describe_server(read(s3=0))) == ""


def test_stuck_requests_name_their_route() -> None:
    """The route with most of the stuck requests, not the one with most threads; nothing changes but the evidence."""
    reading = read(s3=2, s45=1, s5=2)
    on, off = (findings(window(60.0), reading, routes)["request_stuck"] for routes in (WINDOW, None))
    assert on.evidence == f"{off.evidence} `GET /a` holds 19 % of all busy threads; its oldest request is 45 s old."
    assert replace(on, evidence="") == replace(off, evidence="")


def test_stuck_requests_without_a_route_have_no_sentence() -> None:
    """`other` is no name that helps anyone."""
    on, off = (findings(window(60.0), read(s3=2, s45=0), routes)["request_stuck"] for routes in (WINDOW, None))
    assert on == off


def test_uneven_workers_name_the_route_that_holds_most_threads() -> None:
    """Both if they hurt, and if the harm is not known."""
    words = " `POST /export` holds 61 % of all busy threads; its oldest request is 3.0 s old."
    reading = read(s3=2)
    for of, code in ((the_example(), "unevenness_hurts"), (_without_cpu(the_example()), "uneven")):
        on, off = (findings(of, reading, routes)[code] for routes in (WINDOW, None))
        assert on.evidence == off.evidence + words
        assert replace(on, evidence="") == replace(off, evidence="")


def _without_cpu(of: Window) -> Window:
    return replace(of, workers=tuple(msgspec.structs.replace(worker, cpu_seconds=None) for worker in of.workers))
