"""The page of routes and its line in the head, and the line about CPU in use on the page of findings."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from tests.support import simulated_server
from tests.support.scripted_watch import ScriptedWatch
from tests.support.top_screen import hot, lines, screen_model
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.documents.waits import Code, CodeLine, CodeState, Route
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.view.headline import route_lines
from uwsgi_headroom.top.view.pages import code_page, finding_lines, route_page

HOT = hot()
EXPORT = Route(route="POST /export", threads=4.9, share=0.61, in_service=5, oldest_seconds=42.0)
ORDER = Route(route="GET /orders/{id}", threads=1.6, share=0.2, in_service=0, oldest_seconds=None)
OTHER = Route(route="other", threads=0.1, share=0.01, in_service=0, oldest_seconds=None)
PAGE = Navigation(view="routes", server=(0, "shop"))


def with_routes(*routes: Route) -> Server:
    return msgspec.structs.replace(HOT, routes=routes)


def test_the_page_has_every_route() -> None:
    """Busy threads, their share, requests in service and the oldest of them; a filter leaves the routes it matches."""
    page = route_page(with_routes(EXPORT, ORDER, OTHER), "", 80)
    assert [row.plain.split() for row in page.rows] == [
        ["4.9", "61%", "██████▏", "5", "42s", "POST", "/export"],
        ["1.6", "20%", "██", "0", "-", "GET", "/orders/{id}"],
        ["0.1", "1.0%", "▏", "0", "-", "other"],
    ]
    assert [row.plain[-12:] for row in route_page(with_routes(EXPORT, ORDER), "EXPORT", 80).rows] == ["POST /export"]


def test_a_route_that_is_stuck_is_marked() -> None:
    """Its oldest request is as old as a stuck thread."""
    styles = [
        [row.plain[span.start : span.end].strip() for span in row.spans if span.style == "bold red"]
        for row in route_page(with_routes(EXPORT, ORDER), "", 80).rows
    ]
    assert styles == [["42s"], []]


@pytest.mark.parametrize(
    ("server", "text", "sentence"),
    [
        (HOT, "", "Routes are off. An exporter shows them with --routes true; see its documentation first."),
        (with_routes(), "", "No thread was busy."),
        (with_routes(EXPORT), "nothing", "No route matches the filter."),
    ],
)
def test_a_page_without_routes_says_why(server: Server, text: str, sentence: str) -> None:
    """Routes that are off are not the same as threads that are idle."""
    assert [row.plain for row in route_page(server, text, 80).rows] == [sentence]


def test_the_head_names_the_routes_that_fit() -> None:
    """They hold busy threads, not requests; a server without routes has no line, and no hint of their key."""
    server = with_routes(EXPORT, ORDER, OTHER)
    assert [line.plain for line in route_lines(server, 120)] == [
        "routes       POST /export 61 % of the busy threads, oldest 42 s; GET /orders/{id} 20 %; 1 more"
    ]
    assert [line.plain for line in route_lines(server, 80)] == [
        "routes       POST /export 61 % of the busy threads, oldest 42 s"
    ]
    at_it = Navigation(view="workers", server=(0, "shop"))
    wide = lines(screen_model(server), at_it, 200)
    assert any(line.startswith("routes ") for line in wide)
    assert "P routes" in wide[-1]
    without = lines(screen_model(HOT), at_it, 200)
    assert not any("outes" in line for line in without)


@pytest.mark.parametrize("name", ["GET /\x1b[31mred\u202e", "GET /データベース/" * 20, "x" * 300])
def test_any_route_fits(name: str) -> None:
    """Paths are data of strangers: hostile, wide and long ones neither widen a line nor reach the terminal."""
    server = with_routes(msgspec.structs.replace(EXPORT, route=name))
    for width in (20, 40, 80):
        for line in (*lines(screen_model(server), PAGE, width), *(line.plain for line in route_lines(server, width))):
            assert cell_len(line) <= width
            assert line.isprintable()


@pytest.mark.parametrize(
    ("idle", "line"), [(0.25, "CPUs in use: 0.00 by the workers, 1.75 by other programs; 0.25 idle."), (None, None)]
)
def test_cpu_in_use(idle: float | None, line: str | None) -> None:
    """One line has the three parts; there is none if the kernel does not report them."""
    watch = ScriptedWatch().seconds(simulated_server.Server(idle=idle, others=1.75), 5)
    text = [str(part) for part in finding_lines(watch.document(), 100, 0.0)]
    assert [part for part in text if part.startswith("CPUs in use")] == ([line] if line else [])


def test_the_lines_of_code_are_a_page() -> None:
    """Each with its time of a request, where it is and what it waits for; a filter matches the text."""
    states = (CodeState(state="backend", share=0.6),)
    line = CodeLine(
        function="query_orders",
        file="/srv/shop/orders.py",
        line=3,
        callee="execute",
        samples=60,
        share=0.6,
        per_request=0.12,
        states=states,
        addresses=("10.0.0.5:5432",),
    )
    code = Code(why=None, samples=50, threads=100.0, lines=(line,), unread=0.1)
    drawn = [row.plain for row in code_page(msgspec.structs.replace(hot(), code=code), "", 80).rows]
    assert drawn == [
        "      120 ms    60%  query_orders (shop/orders.py:3), in execute: backend",
        "                     10.0.0.5:5432",
        "                     30 % in other lines, 10 % not readable",
    ]
    for server, text, said in (
        (hot(), "", "--code"),
        (msgspec.structs.replace(hot(), code=Code(why="no right")), "", "Not known: no right."),
        (msgspec.structs.replace(hot(), code=code), "nothing", "No line matches"),
    ):
        assert said in code_page(server, text, 80).rows[0].plain
