"""The pages of `top`, with events and plots."""

import itertools
import re
import time

import pytest
from msgspec.structs import replace

from tests.support.documents_with_times import code_line
from tests.support.simulated_server import EPOCH
from tests.support.top_screen import hot, lines, screen_model
from uwsgi_headroom.documents.history import ConcurrencyColumns, Headrooms, HistoryDocument, ThreadColumns
from uwsgi_headroom.documents.schema import ServerDocument
from uwsgi_headroom.documents.subjects import Code, Route
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.top.feeds import NO_TREND
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.view.pages import code_page, event_page, plot_lines, route_page

HOT = hot()
EXPORT = Route(route="POST /export", threads=4.9, share=0.61, in_service=5, oldest_seconds=42.0)
ORDER = Route(route="GET /orders/{id}", threads=1.6, share=0.2, in_service=0, oldest_seconds=None)
OTHER = Route(route="other", threads=0.1, share=0.01, in_service=0, oldest_seconds=None)
PAGE = Navigation(view="routes", server=(0, "shop"))


def with_routes(*routes: Route) -> ServerDocument:
    return replace(HOT, routes=routes)


def test_the_page_has_every_route():
    """With busy threads, their share, requests in service and the oldest, which is marked if it is as old as a stuck
    thread. A filter leaves its matches."""
    page = route_page(with_routes(EXPORT, ORDER, OTHER), "", 80)
    assert [row.plain.split() for row in page.rows] == [
        ["4.9", "61%", "██████▏", "5", "42s", "POST", "/export"],
        ["1.6", "20%", "██", "0", "-", "GET", "/orders/{id}"],
        ["0.1", "1.0%", "▏", "0", "-", "other"],
    ]
    assert [row.plain[-12:] for row in route_page(with_routes(EXPORT, ORDER), "EXPORT", 80).rows] == ["POST /export"]
    styles = [
        [row.plain[span.start : span.end].strip() for span in row.spans if span.style == "bold red"]
        for row in route_page(with_routes(EXPORT, ORDER), "", 80).rows
    ]
    assert styles == [["42s"], []]


@pytest.mark.parametrize(
    ("server", "text", "sentence"),
    [
        (HOT, "", "Routes are off. An exporter shows them with --routes; see its documentation first."),
        (with_routes(), "", "No thread was busy."),
        (with_routes(EXPORT), "nothing", "No route matches the filter."),
    ],
)
def test_a_page_without_routes_says_why(server, text, sentence):
    """Routes that are off are not the same as threads that are idle; the line of keys has theirs if they are on."""
    assert [row.plain for row in route_page(server, text, 80).rows] == [sentence]
    assert ("P routes" in lines(screen_model(server), PAGE, 200)[-1]) == (server is not HOT)


def test_the_lines_of_code_are_a_page():
    """Each with its time of a request, where it is and what it waits for; a filter matches the text."""
    code = Code(why=None, samples=50, threads=100.0, lines=(code_line(),), unread=0.1)
    drawn = [row.plain for row in code_page(replace(hot(), code=code), "", 80).rows]
    assert drawn == [
        "    120 ms   60 %  query_orders (shop/orders.py:3), in execute: backend",
        "                   10.0.0.5:5432",
        "                   30 % in other lines, 10 % not readable",
    ]
    for server, text, said in (
        (hot(), "", "--code"),
        (replace(hot(), code=Code(why="no right")), "", "Not known: no right."),
        (replace(hot(), code=code), "nothing", "No line matches"),
    ):
        assert said in code_page(server, text, 80).rows[0].plain


@pytest.fixture(autouse=True)
def _in_one_time_zone(monkeypatch):
    """Set a time zone one hour ahead of UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "CET-1")
        time.tzset()
        yield
    time.tzset()


EVENTS = (
    Event(
        id=3,
        time=EPOCH + 60.0,
        since=EPOCH + 60.0,
        kind="server_down",
        title="The server is down.",
        evidence="Connection refused.",
    ),
    Event(id=2, time=EPOCH - 90_000.0, since=EPOCH - 90_010.0, kind="worker_ended", title="Worker 3 ended.", count=4),
)


def test_events_are_shown_with_the_time_of_this_place():
    """The title has the zone; events of today have a clock time, older ones the day, all their age and evidence."""
    page = event_page(EVENTS, "", 80, EPOCH + 75.0)
    assert page.title[0].plain.split() == ["TIME", "CET", "AGO", "EVENT"]
    assert [re.split(" {2,}", row.plain) for row in page.rows] == [
        ["23:14:20", "15s", "The server is down."],
        ["", "Connection refused."],
        ["13 Nov 22h", "25h", "Worker 3 ended. (4 times since 22:13:10)"],
    ]


def test_events_of_a_server_are_a_page():
    """The page has the verdict above the events; a filter matches their text or kind."""
    model = screen_model(replace(hot(), events=EVENTS))
    page = Navigation(view="events", server=(0, "shop"), chosen=True)
    drawn = lines(model, page)
    assert drawn[1].startswith("CRITICAL")
    for server, text, shown in (
        (model, "", {"The server is down.", "Worker 3 ended."}),
        (model, "worker_ended", {"Worker 3 ended."}),
        (model, "nothing", {"No event matches the filter."}),
        (screen_model(replace(hot(), events=())), "", {"No events so far."}),
    ):
        drawn = "\n".join(lines(server, replace(page, row_filter=text)))
        assert set(re.findall(r"The server is down\.|Worker 3 ended\.|No event.*", drawn)) == shown


def trend(points: int) -> HistoryDocument:
    rising = [float(point) for point in range(1, points + 1)]
    return replace(
        NO_TREND,
        time=[EPOCH + value for value in rising],
        throughput=rising,
        headroom=Headrooms(factor=[2.0] * points),
        queue_wait=[None] * points,
        concurrency=ConcurrencyColumns(observed=[4.0] * points),
        threads=ThreadColumns(available=[8] * points),
    )


def test_a_plot_of_load_headroom_wait_and_busy_threads():
    """A rising line rises; a headroom of 2x is half as high as 1x would be, and busy threads as all threads would."""
    drawn = [line.plain for line in plot_lines(trend(8), 60)]
    assert drawn[0] == "load, requests per second   now 8.00, min 1.00, max 8.00"
    assert drawn[1] == "".join(level * 7 for level in "▂▃▄▅▆▇██")
    assert (drawn[2][:8], set(drawn[3])) == ("headroom", {"▅"})
    assert drawn[4:6] == ["wait in the listen queue   not known", " " * 56]
    assert (drawn[6], set(drawn[7])) == ("busy threads   now 4.0, min 4.0, max 4.0", {"▅"})
    assert drawn[-1].split() == ["23:13:20", "23:13:28", "CET"]
    assert [line.plain for line in plot_lines(NO_TREND, 80)] == ["No history to draw yet."]
    for points, width in itertools.product((1, 7, 240), (20, 60, 200)):
        assert max(line.cell_len for line in list(plot_lines(trend(points), width))[1::2]) <= width
