"""The screen at every size: its content, and that it fits."""

import itertools
import re
import time

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from tests.support.captured_documents import NAMES
from tests.support.documents_with_times import code_line, objective, with_objective, with_response_times, with_waits
from tests.support.scripted_watch import ScriptedWatch, replayed
from tests.support.simulated_server import EPOCH, Server
from tests.support.top_screen import hot, lines, screen_model
from uwsgi_headroom.check.tables import COLUMNS
from uwsgi_headroom.documents.history import ConcurrencyColumns, Headrooms, HistoryDocument, ThreadColumns
from uwsgi_headroom.documents.schema import Error, ServerDocument
from uwsgi_headroom.documents.subjects import Code, Route
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.history.events import Event
from uwsgi_headroom.top.feeds import NO_TREND
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.view.pages import code_page, event_page, plot_lines, route_page
from uwsgi_headroom.top.view.screen import BINDINGS, SERVER_SORT_LABEL, draw, draw_plain

SIZES = ((80, 24), (120, 40), (320, 90), (40, 10), (20, 5), (80, 1), (60, 2))
VIEWS = ("servers", "workers", "threads", "findings", "events", "plots", "routes", "code", "help")
HOSTILE = ("GET /\x1b[31mred\u202e", "GET /データベース/" * 20, "x" * 300)
"""Names of routes, which strangers choose."""

AT_IT = Navigation(view="workers", server=(0, "shop"))


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("view", VIEWS)
def test_it_fits(width, height, view):
    navigation = replace(AT_IT, view=view)
    times = with_objective(with_response_times(hot()), objective(unjudged="not judged: " + "a reason " * 20))
    for server in (
        hot(),
        hot(64, 16),
        times,
        *(replace(times, routes=(replace(EXPORT, route=name),)) for name in HOSTILE),
        with_waits(hot(), lock_waiters=(0.0, 0.5, None, 7.25)),
        ScriptedWatch().document(),
        ScriptedWatch().read(ReadError("refused", "no " * 40)).document(),
    ):
        drawn = lines(screen_model(server), navigation, width, height)
        assert len(drawn) == height
        assert max(map(cell_len, drawn)) <= width
        assert "".join(drawn).isprintable()


@pytest.mark.parametrize("name", NAMES)
def test_every_captured_document_can_be_shown(name):
    document = replayed(name).document()
    whole = "\n".join(line.plain for line in draw_plain(screen_model(document), AT_IT, 120, 0.0))
    assert not document.emperor or all(vassal.name in whole for vassal in document.emperor.vassals)
    assert not document.router or all(node.name in whole for node in document.router.static_nodes)
    for view, (width, height) in itertools.product(VIEWS, SIZES[::3]):
        navigation = Navigation(view=view, server=(0, document.name))
        assert len(lines(screen_model(document), navigation, width, height)) == height


def test_the_top_answers_the_questions():
    """What is wrong and since when, what to do, what users wait, what is served, and then the limits."""
    server = hot()
    server = replace(server, sampling=replace(server.sampling, observed_seconds=900.0))
    top = lines(screen_model(server), AT_IT)
    assert top[1].startswith("CRITICAL  Worker 4 takes too much of the load: its")
    assert re.search(r"Since [\d:]+ \w+ \(45 s\)\.$", top[2])
    assert top[3] == "DO           Use more processes and fewer threads, such as 8x4 instead of 4x8"
    assert top[5] == "users wait   412 ms in service; the listen queue is empty"
    assert top[6] == "served       16.0/s; 11 at once for 32 threads"
    assert top[7].startswith("headroom     1.0x, then the hottest worker's interpreter saturates")
    assert [line.split()[0] for line in top[9:12]] == ["queue", "response", "in"]
    title = next(place for place, line in enumerate(top) if line.split()[:3] == ["W", "PID", "STATE"])
    assert top[title + 1].split()[:2] == ["4", "104"]
    assert top[title + 5].split()[:2] == ["all", "11/32"]


def test_small_screens_and_short_windows():
    """The verdict, the first act and what users wait stay."""
    top = lines(screen_model(hot()), AT_IT, 40, 10)
    assert top[1].startswith("CRITICAL  Worker 4 takes")
    assert [line.split()[0] for line in top[2:4]] == ["DO", "users"]
    assert any(line.split()[:1] == ["4"] for line in top)
    server = Server()
    document = ScriptedWatch().seconds(server, 10, lambda _: server.serve(1, 5)).document()
    assert lines(screen_model(document), AT_IT)[-1].endswith("over 10 s of 60 s, every 1 s")
    assert lines(screen_model(hot()), AT_IT)[-1].endswith("over 60 s, every 1 s")
    at_end = draw(screen_model(hot(64, 16)), replace(AT_IT, first=100_000), 80, 24, 0.0)
    assert 0 < at_end.first < 64
    assert draw(screen_model(hot(64, 16)), replace(AT_IT, first=at_end.first), 80, 24, 0.0).lines == at_end.lines


def test_wider_terminals_show_more_and_lose_nothing():
    """Names that differ at their ends stay different."""
    shown: set[str] = set()
    for width in (40, 80, 120, 160, 200):
        title = next(line for line in lines(screen_model(hot()), AT_IT, width, 40) if line.split()[:1] == ["W"])
        columns = {column for column in title.split() if "→" not in column}
        assert shown <= columns
        shown = columns
    assert {"PID", "REQ", "EXC", "TX", "SIG", "RESTARTS", "HARA", "RUNTIME", "SPAWNED", "AFFINITY", "LAST"} <= shown
    each = hot()
    stem = "mail-service-with-a-name-of-sixty-characters-and-more-than-that-"
    every = [replace(each, name=f"{stem}{place}") for place in (1, 2)]
    assert stem + "2" in lines(screen_model(*every), Navigation(), 200)[3]
    for width in (60, 80, 132):
        drawn = lines(screen_model(*every), Navigation(), width)
        names = [line.removeprefix("> ").split()[0] for line in drawn[2:4]]
        assert [name[-2:] for name in names] == ["-1", "-2"]
        assert all(name.startswith("mail-") and "…" in name for name in names)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_every_column_can_be_reached_sideways(width):
    """Columns scroll by one; the worker's number stays; at the end the mark is gone and no key scrolls further."""
    reached: set[str] = set()
    model = screen_model(with_waits(hot(), lock_waiters=(0.0, 0.5, None, 7.25)))
    for first in range(40):
        screen = draw(model, replace(AT_IT, column=first), width, 40, 0.0)
        title = next(line.plain for line in screen.lines if line.plain.split()[:1] == ["W"])
        reached |= set(title.split())
    assert {column.title.strip() for column in COLUMNS} <= reached
    assert title.endswith("←")
    assert screen.column < len(COLUMNS)
    assert draw(model, replace(AT_IT, column=screen.column), width, 40, 0.0).lines == screen.lines


def test_threads_that_wait_for_the_interpreter_have_a_column_where_they_are_known():
    """A worker's figure is beside a bar of its share of the threads in service; unknown is a dash, never a zero."""
    server = hot()
    busy = server.workers[3].concurrency
    assert busy
    model = screen_model(with_waits(server, lock_waiters=(0.0, 0.5, None, busy / 2)))
    drawn = lines(model, replace(AT_IT, sort="number"))
    place = next(place for place, line in enumerate(drawn) if line.split()[:1] == ["W"])
    start = drawn[place].index("LOCK")
    cells = [line[start : start + 8].rstrip() for line in drawn[place + 1 : place + 6]]
    assert cells[0] == " 0.0"
    assert cells[1].startswith(" 0.5 ")
    assert cells[2].strip() == "-"
    assert cells[3] == f" {busy / 2:.1f} █▌"
    assert cells[4] == f" {0.5 + busy / 2:.1f}"
    assert not any("LOCK" in line for line in lines(screen_model(server), AT_IT, 320))


def test_many_workers():
    """Of 64, the hottest is in sight and the rest a key away."""
    drawn = lines(screen_model(hot(20)), AT_IT)
    assert len(next(line for line in drawn if line.startswith("DO "))) <= 80
    assert {line.split()[0] for line in drawn[5:9]} >= {"users", "served", "headroom"}
    server = screen_model(hot(64, 16))
    first = lines(server, AT_IT)
    title = next(place for place, line in enumerate(first) if line.split()[:1] == ["W"])
    assert first[title + 1].split()[0] == "64"
    last = lines(server, replace(AT_IT, sort="number", first=100_000))
    assert last[-4].split()[0] == "64"
    assert last[-3].strip().endswith("above")
    assert last[-2].split()[:1] == ["all"]
    assert last[title].split()[:1] == ["W"]
    assert first[-3].strip() == f"↓ {64 - len(first[title + 1 : -3])} more below"


def test_what_is_old_says_so():
    """A server that is down has its state and the age of its figures; a feed that is gone has the reason."""
    watch = ScriptedWatch().seconds(server := Server(), 10, lambda _: server.serve(1, 5))
    watch.read(ReadError("refused", "connection refused: nothing listens here"), at=watch.now + 30)
    drawn = lines(screen_model(watch.document()), AT_IT)
    assert "down, last read 65 s ago" in drawn[0]
    assert drawn[1].startswith("DOWN  connection refused: nothing listens here")
    assert any(line.startswith("served       nothing: the server is down; 5.00/s before") for line in drawn)
    assert any("last figures, before the server went down" in line for line in drawn)
    assert not any(re.search(r"\bbusy\b|\bidle\b|\d/\d|^queue|^in service", line) for line in drawn[1:-1])
    drawn = lines(replace(screen_model(hot()), troubles={0: "http://h:1: nothing listens there"}), AT_IT)
    assert drawn[1] == "STALE  http://h:1: nothing listens there"
    assert drawn[2].startswith("CRITICAL  Worker 4 takes")
    for view, is_dim in (("workers", True), ("help", False)):
        screen = draw(screen_model(watch.document()), replace(AT_IT, view=view), 80, 24, watch.now)
        assert any(line.style == "dim" for line in screen.lines) is is_dim


def test_what_is_not_known_is_a_dash_and_never_a_zero():
    """Without cores, host facts and queue, there are no threads, load or memory, and the reasons are shown."""
    server = Server(cores=False, host=False, queue=None)
    document = ScriptedWatch().seconds(server, 10, lambda _: server.serve(1, 5)).document()
    drawn = lines(screen_model(document), replace(AT_IT, sort="number"), 80, 24)
    row = next(line for line in drawn if line.split()[:1] == ["1"])
    assert "0/" not in row
    assert row.split()[-7:-5] == ["-", "-"]
    assert any("queue        not known: hidden" in line for line in drawn)
    assert any(
        "stats-no-cores" in line for line in lines(screen_model(document), replace(AT_IT, view="findings"), 80, 60)
    )


def test_the_list_marks_what_is_chosen_and_keeps_it_in_sight():
    each = hot()
    every = [replace(each, name=f"s{place:03}") for place in range(100)]
    drawn = lines(screen_model(*every), Navigation(server=(0, "s077")))
    assert "100 servers: 100 critical" in drawn[0]
    assert drawn[1].split()[:2] == ["SERVER", "STATUS"]
    assert drawn[-3].startswith("s077: CRITICAL  Worker 4 takes")
    assert drawn[-4].split()[:4] == ["100", "of", "100", "up"]
    assert re.fullmatch(r" +↓ 22 more below, ↑ \d+ above", drawn[-5])
    assert drawn[-6].startswith("> s077")


def test_into_a_pipe_nothing_is_left_out():
    printed = [line.plain for line in draw_plain(screen_model(hot(64, 16)), AT_IT, 120, 0)]
    assert sum(line.split()[:1] == [str(place)] for place in range(1, 65) for line in printed) == 64
    assert printed[-1].split()[0] == "all"
    each = hot()
    model = screen_model(each, replace(each, name="other"))
    printed = [line.plain for line in draw_plain(model, Navigation(), 500, 0)]
    assert len(printed) == 5
    assert printed[2].rstrip().endswith(each.verdict)
    assert not any("q quit" in line for line in printed)


@pytest.mark.parametrize("height", [10, 24, 40])
def test_the_table_stays_where_it_is_when_the_verdict_changes(height):
    ill = hot()
    calm = replace(ill, status="ok", verdict="Short.", findings=())
    long = replace(ill, verdict="Words " * 80)
    models = [screen_model(calm), screen_model(ill), screen_model(long), replace(screen_model(ill), troubles={0: "x"})]
    drawn = [lines(model, AT_IT, 80, height) for model in models]
    places = {next(place for place, line in enumerate(each) if line.split()[:1] == ["W"]) for each in drawn}
    assert len(places) == 1
    assert any(line.endswith("…") for line in drawn[2][1:4])


def test_the_title_of_the_list_speaks_of_all_servers():
    ill = hot()
    calm = replace(ill, name="calm", status="ok")
    gone = replace(ill, name="gone", state="down", status="unknown", error=Error(reason="refused", message="why"))
    drawn = lines(screen_model(calm, ill, gone), Navigation(server=(0, "calm"), chosen=True), 120)
    assert "3 servers: 1 down, 1 critical" in drawn[0]
    assert "2 servers, all ok" in lines(screen_model(calm, replace(calm, name="b")), Navigation(), 120)[0]
    assert drawn[2].split()[:3] == ["gone", "DOWN", "-"]
    assert drawn[5].split()[:4] == ["2", "of", "3", "up"]


def test_help_fits_an_ordinary_terminal():
    """Every line of the help is shown at 80x24, and nothing is cut at 60 columns."""
    drawn = lines(screen_model(hot()), replace(AT_IT, view="help"))
    assert not any("more below" in line for line in drawn)
    text = " ".join(" ".join(lines(screen_model(hot()), replace(AT_IT, view="help"), 60, 90)).split())
    for binding in BINDINGS:
        assert f"{binding.label} {binding.meaning}" in text
        assert any(binding.meaning in line for line in drawn)
    assert SERVER_SORT_LABEL in text
    assert "…" not in text


def test_a_filter_leaves_rows_and_says_so():
    """The filter matches names of servers, and texts in the rows of workers."""
    each = hot()
    model = screen_model(each, replace(each, name="other"))
    drawn = lines(model, Navigation(fleet_filter="oth"))
    assert [line.split()[0] for line in drawn if line.split()[1:2] == ["CRITICAL"]] == ["other"]
    assert drawn[-1].startswith("filter: oth (esc clears)")
    drawn = lines(model, replace(AT_IT, row_filter="104"))
    title = next(place for place, line in enumerate(drawn) if line.split()[:1] == ["W"])
    assert [line.split()[0] for line in drawn[title + 1 : title + 3]] == ["4", "all"]
    assert lines(model, Navigation(fleet_filter="oth", typing=True))[-1].startswith("filter: oth_")


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
