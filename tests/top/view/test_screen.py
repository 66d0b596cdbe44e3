"""The screen at every size: its content, and that it fits."""

import itertools
import re

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from tests.support.captured_documents import NAMES
from tests.support.documents_with_times import objective, with_objective, with_response_times, with_waits
from tests.support.scripted_watch import ScriptedWatch, replayed
from tests.support.simulated_server import Server
from tests.support.top_screen import hot, lines, screen_model
from tests.top.view.test_pages import EXPORT
from uwsgi_headroom.check.tables import COLUMNS
from uwsgi_headroom.documents.schema import Error
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.top.navigation import Navigation
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
    """Of a hundred servers, the selected one is in view, with its verdict below the list."""
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
    """With a short or long verdict, advice, or a feed in trouble, the table's title stays on the same line."""
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
