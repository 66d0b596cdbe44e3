"""The effect of each key, the selected server as servers come and go, and the order of the list."""

import pytest
from msgspec.structs import replace

from tests.support.scripted_watch import ScriptedWatch
from tests.support.top_screen import hot
from uwsgi_headroom.check.tables import COLUMNS, SORTS
from uwsgi_headroom.documents.build import build_server_list, natural
from uwsgi_headroom.documents.schema import Summary
from uwsgi_headroom.top.navigation import (
    SERVER_SORTS,
    Navigation,
    ServerEntry,
    arrange_entries,
    handle_key,
    select_server,
)
from uwsgi_headroom.top.view.screen import BINDINGS, SERVER_SORT_LABEL, WORKER_SORT_LABEL

SERVERS = [(0, "a"), (0, "b"), (1, "a")]
WINDOWS = (60.0, 300.0)
LIST = Navigation(server=SERVERS[0], chosen=True)


def after(keys: str | list[str], navigation: Navigation | None = None) -> Navigation:
    outcome: Navigation | None = navigation or Navigation(view="workers", server=SERVERS[0], chosen=True)
    for key in keys:
        assert isinstance(outcome, Navigation)
        outcome = handle_key(key, outcome, SERVERS, WINDOWS)
    assert isinstance(outcome, Navigation)
    return outcome


@pytest.mark.parametrize("key", [key for binding in BINDINGS for key in binding.keys])
def test_every_key_of_the_help_does_something(key):
    states = [
        replace(LIST, server=SERVERS[1], fleet_filter="x"),
        Navigation(view="workers", server=SERVERS[1], chosen=True, first=5, column=3, window=60.0, row_filter="x"),
        replace(LIST, view="workers", window=300.0),
    ]
    assert any(handle_key(key, state, SERVERS, WINDOWS) != state for state in states)


def test_sort_keys_are_those_of_the_help():
    """Each sort key is a column or an order of servers, and has no other meaning."""
    assert set(SORTS.values()) <= {column.name for column in COLUMNS}
    for key, name in SORTS.items():
        assert after([key]).sort == name
    for key, name in SERVER_SORTS.items():
        assert after([key], LIST).fleet_sort == name
    assert {part.split()[0] for part in SERVER_SORT_LABEL.split(", ")} == set(SERVER_SORTS)
    assert {part.split()[0] for part in WORKER_SORT_LABEL.split(", ")} == set(SORTS)


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
        ("ps", "workers"),
    ],
)
def test_pages(keys, view):
    assert after(keys).view == view


def test_steps_back_and_beside():
    assert after(["p", "?", "escape"]).view == "plots"
    assert after(["p", "escape"]).view == "workers"
    assert after(["p", "escape", "escape"]).view == "servers"
    assert after(["tab"]).server == (0, "b")
    assert after(["tab", "tab", "tab"]).server == (0, "a")
    assert after(["backtab"]).server == (1, "a")
    listed = Navigation(server=SERVERS[0])
    moved = after(["down", "down", "down"], listed)
    assert (moved.server, moved.chosen) == ((1, "a"), True)
    assert after(["enter"], moved).view == "workers"
    assert not after(["home"], moved).chosen


def test_a_filter_is_typed_kept_and_cleared():
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


def test_windows_and_columns():
    """They stop at their ends."""
    assert after("]").window == 300.0
    assert after("]]]").window == 300.0
    assert after("]][[[").window == 60.0
    assert after(["right", "right"]).column == 2
    assert after(["right", "left", "left"]).column == 0
    assert after(["right"], LIST).column == 0


def test_keys_without_a_server():
    """No key fails; q ends."""
    for key in ("enter", "tab", "up", "down", "t", "[", "escape", "right", "\N{SNOWMAN}"):
        assert isinstance(handle_key(key, Navigation(), [], ()), Navigation)
    assert handle_key("q", Navigation(), SERVERS, WINDOWS) is None


A, B, C = (0, "a"), (0, "b"), (1, "c")


def test_which_server_is_selected():
    """The first of the list until one is chosen; a lone one is opened once; one that is gone leads back."""
    listed = select_server(Navigation(), [A, B], [A, B])
    assert (listed.server, listed.view) == (A, "servers")
    assert select_server(listed, [A, B], [B, A]).server == B
    chosen = Navigation(server=A, chosen=True)
    assert select_server(chosen, [A, B], [B, A]) == chosen
    assert select_server(Navigation(server=A, chosen=True), [A, B], [B]).server == B
    assert select_server(Navigation(server=A, chosen=True), [A, B], []).server is None
    page = Navigation(view="plots", server=A, chosen=True)
    assert select_server(page, [A, B], [B]) == page
    opened = select_server(Navigation(), [A], [A])
    assert (opened.server, opened.view) == (A, "workers")
    back = Navigation(server=A, chosen=True)
    assert select_server(back, [A], [A]) == back
    assert select_server(Navigation(fleet_filter="a"), [A, B], [A]).view == "servers"
    first_to_answer = select_server(Navigation(), [A], [A], complete=False)
    assert (first_to_answer.server, first_to_answer.view) == (A, "servers")
    assert select_server(first_to_answer, [A], [A]).view == "workers"
    gone = select_server(Navigation(view="workers", server=A, chosen=True), [B, C], [B, C])
    assert (gone.view, gone.server) == ("servers", B)
    waiting = Navigation(view="workers", server=C, chosen=True)
    assert select_server(waiting, [], []) == waiting
    assert select_server(waiting, [A], [A]) == waiting


@pytest.fixture(scope="module")
def summary():
    return build_server_list([hot()], ScriptedWatch().clock).servers[0]


def entry(summary: Summary, name: str, **changes: object) -> ServerEntry:
    return ServerEntry((0, name), replace(summary, name=name, **changes))


def names(entries: list[ServerEntry]) -> list[str]:
    return [each.summary.name for each in entries]


def test_orders(summary):
    """Names in natural order; figures downwards, unknown ones last."""
    entries = [entry(summary, name) for name in ("shop10", "Shop2", "shop1", "10", "9", "a", "x\u00b2")]
    assert names(arrange_entries(entries, sort="name")) == ["9", "10", "a", "shop1", "Shop2", "shop10", "x\u00b2"]
    assert natural("a010b") < natural("a11b")
    entries = [entry(summary, str(rate), throughput=rate) for rate in (1.0, None, 3.0)]
    assert names(arrange_entries(entries, sort="requests/s")) == ["3.0", "1.0", "None"]


def test_the_worst_come_first(summary):
    """Servers sort by state (down, stale), then status, headroom and name."""
    entries = [
        entry(summary, "ok9", status="ok", headroom=9.0),
        entry(summary, "ok2", status="ok", headroom=2.0),
        entry(summary, "idle10", status="ok", headroom=None),
        entry(summary, "idle9", status="ok", headroom=None),
        entry(summary, "warns", status="warning", headroom=50.0),
        entry(summary, "burns", status="critical", headroom=None),
        entry(summary, "hangs", state="stale", status="unknown"),
        entry(summary, "gone", state="down", status="unknown", headroom=90.0),
    ]
    expected = ["gone", "hangs", "burns", "warns", "ok2", "ok9", "idle9", "idle10"]
    assert names(arrange_entries(entries)) == expected


@pytest.mark.parametrize(("text", "found"), [("WEB", ["web1"]), ("down", ["web1"]), ("critical", ["db"]), ("zz", [])])
def test_a_filter_matches_names_states_and_statuses(summary, text, found):
    """The filter ignores case."""
    entries = [entry(summary, "web1", state="down", status="unknown"), entry(summary, "db")]
    assert names(arrange_entries(entries, text)) == found
