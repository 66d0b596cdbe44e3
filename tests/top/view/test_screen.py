"""The screen at every size: what stands on it, and that it fits."""

from __future__ import annotations

import itertools
from dataclasses import replace

import msgspec
import pytest
from rich.cells import cell_len

from tests.support.captured_documents import NAMES
from tests.support.scripted_watch import ScriptedWatch, replayed
from tests.support.simulated_server import Server
from tests.support.top_screen import hot, lines, screen_model
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.view.screen import draw_plain

SIZES = ((80, 24), (120, 40), (320, 90), (40, 10), (20, 5), (80, 1))
VIEWS = ("servers", "workers", "threads", "findings", "help")
AT_IT = Navigation(view="workers", server=(0, "shop"))


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("view", VIEWS)
def test_it_fits(width: int, height: int, view: str) -> None:
    """No line is wider than the terminal, and there are exactly as many as it has: nothing scrolls away."""
    navigation = replace(AT_IT, view=view)  # type: ignore[arg-type]
    for server in (
        hot(),
        hot(64, 16),
        ScriptedWatch().document(),
        ScriptedWatch().read(ReadError("refused", "no " * 40)).document(),
    ):
        drawn = lines(screen_model(server), navigation, width, height)
        assert len(drawn) == height
        assert max(map(cell_len, drawn)) <= width


@pytest.mark.parametrize("name", NAMES)
def test_every_captured_document_can_be_shown(name: str) -> None:
    """On every page, at the least and the usual size."""
    document = replayed(name).document()
    for view, (width, height) in itertools.product(VIEWS, SIZES[::3]):
        navigation = Navigation(view=view, server=(0, document.name))  # type: ignore[arg-type]
        assert len(lines(screen_model(document), navigation, width, height)) == height


def test_the_top_answers_the_question() -> None:
    """How it is, how much more load it takes, what gives out first and what to change: the first lines say it."""
    server = hot()
    assert server.headroom
    top = lines(screen_model(server), AT_IT)
    assert top[1].startswith("CRITICAL  Worker 4 takes 62 % of the requests")
    assert top[3].startswith("headroom     1.0x, then the hottest worker's interpreter saturates")
    assert any(line.startswith("change       Use more processes and fewer threads") for line in top[4:6])
    assert [line.split()[0] for line in top[9:12]] == ["in", "requests", "queue"]
    assert top[13].split()[:3] == ["W", "PID", "STATE"]
    assert top[14].split()[:2] == ["4", "104"]


def test_it_answers_at_40_by_10_too() -> None:
    """The verdict and the headroom are what stays, and the hottest worker is in sight."""
    top = lines(screen_model(hot()), AT_IT, 40, 10)
    assert top[1].startswith("CRITICAL  Worker 4 takes")
    assert top[3].startswith("headroom     1.0x")
    assert any(line.split()[:1] == ["4"] for line in top)


def test_wider_terminals_show_more_columns_and_lose_none() -> None:
    """A column is never dropped for one that says less."""
    shown: set[str] = set()
    for width in (40, 80, 120, 160, 200):
        title = next(line for line in lines(screen_model(hot()), AT_IT, width, 40) if line.split()[:1] == ["W"])
        assert shown <= set(title.split())
        shown = set(title.split())
    assert {"PID", "REQ", "EXC", "TX", "SIG", "SPAWNS", "HARA", "RUNTIME", "SPAWNED", "AFFINITY"} <= shown


def test_the_hottest_of_64_workers_is_in_sight_and_the_rest_a_key_away() -> None:
    """Sorted by share as it opens; scrolled to the end, the last worker stands above the keys."""
    server = screen_model(hot(64, 16))
    first = lines(server, AT_IT)
    title = next(place for place, line in enumerate(first) if line.split()[:1] == ["W"])
    assert first[title + 1].split()[0] == "64"
    last = lines(server, replace(AT_IT, sort="number", first=100_000))
    assert last[-2].split()[0] == "64"
    assert last[title].split()[:1] == ["W"]


def test_what_is_old_says_so() -> None:
    """A server that is down: what is shown and how old it is; a feed that is gone: why."""
    watch = ScriptedWatch().seconds(server := Server(), 10, lambda _: server.serve(1, 5))
    watch.read(ReadError("refused", "connection refused: nothing listens here"), at=watch.now + 30)
    drawn = lines(screen_model(watch.document()), AT_IT)
    assert "down, as it was" in drawn[0]
    assert drawn[1].startswith("UNKNOWN  Down: connection refused")
    drawn = lines(replace(screen_model(hot()), troubles={0: "http://h:1: nothing listens there"}), AT_IT)
    assert drawn[1] == "STALE  http://h:1: nothing listens there"


def test_what_is_not_known_is_a_dash_and_never_a_zero() -> None:
    """Without cores, host facts and queue: no threads, no load, no memory, and why."""
    server = Server(cores=False, host=False, queue=None)
    document = ScriptedWatch().seconds(server, 10, lambda _: server.serve(1, 5)).document()
    drawn = lines(screen_model(document), replace(AT_IT, sort="number"), 80, 24)
    row = next(line for line in drawn if line.split()[:1] == ["1"])
    assert "0/" not in row
    assert row.split()[-3:-1] == ["-", "-"]
    assert any("queue        not known: hidden" in line for line in drawn)
    assert any(
        "stats-no-cores" in line for line in lines(screen_model(document), replace(AT_IT, view="findings"), 80, 60)
    )


def test_a_short_window_is_marked() -> None:
    """Figures over ten seconds of a minute say so."""
    server = Server()
    document = ScriptedWatch().seconds(server, 10, lambda _: server.serve(1, 5)).document()
    assert lines(screen_model(document), AT_IT)[-1].endswith("over 10 of 60 s, every 1 s")
    assert lines(screen_model(hot()), AT_IT)[-1].endswith("over 60 s, every 1 s")


def test_the_list_marks_what_is_chosen_and_keeps_it_in_sight() -> None:
    """Of a hundred servers, the chosen one is on the screen, and its verdict above the list."""
    each = hot()
    every = [msgspec.structs.replace(each, name=f"s{place:03}") for place in range(100)]
    drawn = lines(screen_model(*every), Navigation(server=(0, "s077")))
    assert "100 servers: 100 critical" in drawn[0]
    assert drawn[1].startswith("CRITICAL  Worker 4 takes")
    assert any(line.startswith("> s077") for line in drawn)


def test_into_a_pipe_nothing_is_left_out() -> None:
    """All workers, however many."""
    printed = [line.plain for line in draw_plain(screen_model(hot(64, 16)), AT_IT, 120, 0)]
    assert sum(line.split()[:1] == [str(place)] for place in range(1, 65) for line in printed) == 64
    assert not any("q quit" in line for line in printed)
