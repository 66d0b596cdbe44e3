"""The effect of each key on the state of the screen, and the selected server as servers come and go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from uwsgi_headroom.top.navigation import Command, Navigation, handle_key, select_server
from uwsgi_headroom.top.servers import SERVER_SORTS
from uwsgi_headroom.top.view.screen import BINDINGS, SERVER_SORT_LABEL, WORKER_SORT_LABEL
from uwsgi_headroom.top.view.worker_table import COLUMNS, SORTS

SERVERS = [(0, "a"), (0, "b"), (1, "a")]
WINDOWS = (60.0, 300.0)
LIST = Navigation(server=SERVERS[0], chosen=True)


def after(keys: str | list[str], navigation: Navigation | None = None) -> Navigation:
    outcome: Navigation | Command = navigation or Navigation(view="workers", server=SERVERS[0], chosen=True)
    for key in keys:
        assert isinstance(outcome, Navigation)
        outcome = handle_key(key, outcome, SERVERS, WINDOWS)
    assert isinstance(outcome, Navigation)
    return outcome


@pytest.mark.parametrize("key", [key for binding in BINDINGS for key in binding.keys])
def test_every_key_of_the_help_does_something(key: str) -> None:
    """Every key works in the middle of the list and of a server's rows, between the ends of every choice."""
    states = [
        replace(LIST, server=SERVERS[1], interval=2.0, fleet_filter="x"),
        Navigation(
            view="workers", server=SERVERS[1], chosen=True, first=5, column=3, interval=2.0, window=60.0, row_filter="x"
        ),
        replace(LIST, view="workers", window=300.0),
    ]
    assert any(handle_key(key, state, SERVERS, WINDOWS) != state for state in states)


def test_sort_keys_are_those_of_the_help() -> None:
    """Each sort key is a column or an order of servers, and has no other meaning."""
    assert set(SORTS.values()) <= {column.name for column in COLUMNS}
    for key, name in SORTS.items():
        assert after([key]).sort == name
    for key, name in SERVER_SORTS.items():
        assert after([key], LIST).fleet_sort == name
    assert {part.split()[0] for part in SERVER_SORT_LABEL.split(", ")} == set(SERVER_SORTS)
    assert {part.split()[0] for part in WORKER_SORT_LABEL.split(", ")} == set(SORTS) - {"i"}


def test_orders_columns_and_spans() -> None:
    """R turns the order of workers or servers round, another sort back. Arrows move the columns of workers alone;
    brackets, the time of plots."""
    assert after("R").reverse
    assert not after("Rm").reverse
    assert after("R", LIST).fleet_reverse
    assert not after("Rn", LIST).fleet_reverse
    assert after(["right", "right"]).column == 2
    assert after(["right", "left", "left"]).column == 0
    assert after(["right"], LIST).column == 0
    state = after("p]]")
    assert (state.span, state.window) == (900.0, None)
    assert after("[[", state).span == 60.0


@pytest.mark.parametrize(
    ("keys", "view"),
    [
        ("t", "threads"),
        ("tt", "workers"),
        ("a", "findings"),
        ("te", "events"),
        ("p", "plots"),
        ("P", "routes"),
        ("pp", "workers"),
        ("t?", "help"),
        ("t??", "threads"),
        ("l", "servers"),
        ("v", "tree"),
        ("vv", "servers"),
        ("ps", "workers"),
    ],
)
def test_pages(keys: str, view: str) -> None:
    assert after(keys).view == view


def test_escape_goes_back_one_step() -> None:
    """Escape goes from help to the page, from a page to the workers, from there to the list or the tree."""
    assert after(["p", "?", "escape"]).view == "plots"
    assert after(["p", "escape"]).view == "workers"
    assert after(["p", "escape", "escape"]).view == "servers"
    assert after(["v", "enter", "e", "escape", "escape"]).view == "tree"
    assert after(["v", "enter", "l", "enter", "escape"]).view == "servers"


def test_servers_next_to_each_other() -> None:
    assert after(["tab"]).server == (0, "b")
    assert after(["tab", "tab", "tab"]).server == (0, "a")
    assert after(["backtab"]).server == (1, "a")
    listed = Navigation(server=SERVERS[0])
    moved = after(["down", "down", "down"], listed)
    assert (moved.server, moved.chosen) == ((1, "a"), True)
    assert after(["enter"], moved).view == "workers"
    assert not after(["home"], moved).chosen


def test_a_filter_is_typed_kept_and_cleared() -> None:
    """While a filter is typed, keys are text; Enter keeps it, Esc clears it, then and later; pages have their own."""
    typed = after(["/", *"qWeb ", "backspace", "up"], LIST)
    assert (typed.fleet_filter, typed.typing) == ("qWeb", True)
    kept = after(["enter"], typed)
    assert (kept.fleet_filter, kept.typing) == ("qWeb", False)
    assert after(["escape"], typed).fleet_filter == ""
    assert after(["escape"], kept).fleet_filter == ""
    opened = after(["enter", "/", *"busy", "enter"], kept)
    assert (opened.fleet_filter, opened.row_filter) == ("qWeb", "busy")
    assert after(["e"], opened).row_filter == ""
    assert after("P/x").row_filter == "x"
    assert not after("?/").typing


def test_windows_and_intervals_stop_at_their_ends() -> None:
    """[ and ] choose among the existing windows, - and + among the intervals; f toggles."""
    assert after("]").window == 300.0
    assert after("]]]").window == 300.0
    assert after("]][[[").window == 60.0
    assert after("+").interval == 2.0
    assert after("-" * 20).interval == 0.25
    assert after("f").interval == 0.25
    assert after("ff").interval == 1.0
    assert after("+", replace(LIST, interval=1.5)).interval == 2.0
    assert after("-", replace(LIST, interval=60.0)).interval == 30.0


def test_keys_without_a_server() -> None:
    """No key fails. The loop carries out q and d."""
    for key in ("enter", "tab", "up", "down", "t", "[", "v", "escape", "right", "\N{SNOWMAN}"):
        assert isinstance(handle_key(key, Navigation(), [], ()), Navigation)
    assert handle_key("q", Navigation(), SERVERS, WINDOWS) == "quit"
    assert handle_key("d", Navigation(), SERVERS, WINDOWS) == "dump"


A, B, C = (0, "a"), (0, "b"), (1, "c")


def test_until_one_is_chosen_it_is_the_first_of_the_list() -> None:
    """The selection stays on the first server, usually the worst."""
    listed = select_server(Navigation(), [A, B], [A, B])
    assert (listed.server, listed.view) == (A, "servers")
    assert select_server(listed, [A, B], [B, A]).server == B
    chosen = Navigation(server=A, chosen=True)
    assert select_server(chosen, [A, B], [B, A]) == chosen


def test_a_lone_server_is_opened_once() -> None:
    """A single server is not opened again after Esc, nor if a filter leaves one of many."""
    opened = select_server(Navigation(), [A], [A])
    assert (opened.server, opened.view) == (A, "workers")
    back = Navigation(server=A, chosen=True)
    assert select_server(back, [A], [A]) == back
    assert select_server(Navigation(fleet_filter="a"), [A, B], [A]).view == "servers"
    first_to_answer = select_server(Navigation(), [A], [A], complete=False)
    assert (first_to_answer.server, first_to_answer.view) == (A, "servers")
    assert select_server(first_to_answer, [A], [A]).view == "workers"


def test_a_filter_moves_the_selection_of_the_list_and_not_of_a_page() -> None:
    """In the list, a visible server is selected; a page stays even if its server is filtered out."""
    assert select_server(Navigation(server=A, chosen=True), [A, B], [B]).server == B
    assert select_server(Navigation(server=A, chosen=True), [A, B], []).server is None
    page = Navigation(view="plots", server=A, chosen=True)
    assert select_server(page, [A, B], [B]) == page


def test_a_server_that_is_gone_leads_back_to_the_list() -> None:
    """Or to the tree from which it was opened. One whose feed has not answered stays."""
    gone = select_server(Navigation(view="workers", server=A, chosen=True, home="tree"), [B], [B])
    assert (gone.view, gone.server) == ("tree", B)
    waiting = Navigation(view="workers", server=C, chosen=True)
    assert select_server(waiting, [], []) == waiting
    assert select_server(waiting, [A], [A]) == waiting
