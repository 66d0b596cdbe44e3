"""The effect of each key, the selected server as servers come and go, and the order of the list."""

import pytest
from msgspec.structs import replace

from tests.support.scripted_watch import ScriptedWatch
from tests.support.top_screen import hot, lines, screen_model
from uwsgi_headroom.documents.build import build_server_list
from uwsgi_headroom.documents.emperor_router import Emperor, Throttled, Vassal
from uwsgi_headroom.documents.schema import Identity, Server, Summary
from uwsgi_headroom.top.navigation import Command, Navigation, handle_key, select_server
from uwsgi_headroom.top.servers import SERVER_SORTS, ScreenModel, ServerEntry, arrange_entries, grow_tree, natural_key
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
def test_every_key_of_the_help_does_something(key):
    """Every key works in the middle of the list and of a server's rows, between the ends of every choice."""
    states = [
        replace(LIST, server=SERVERS[1], interval=2.0, fleet_filter="x"),
        Navigation(
            view="workers", server=SERVERS[1], chosen=True, first=5, column=3, interval=2.0, window=60.0, row_filter="x"
        ),
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
    assert {part.split()[0] for part in WORKER_SORT_LABEL.split(", ")} == set(SORTS) - {"i"}


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
def test_pages(keys, view):
    assert after(keys).view == view


def test_steps_back_and_beside():
    assert after(["p", "?", "escape"]).view == "plots"
    assert after(["p", "escape"]).view == "workers"
    assert after(["p", "escape", "escape"]).view == "servers"
    assert after(["v", "enter", "e", "escape", "escape"]).view == "tree"
    assert after(["v", "enter", "l", "enter", "escape"]).view == "servers"
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


def test_windows_intervals_orders_and_columns():
    """They stop at their ends, and turn round."""
    assert after("]").window == 300.0
    assert after("]]]").window == 300.0
    assert after("]][[[").window == 60.0
    assert after("+").interval == 2.0
    assert after("-" * 20).interval == 0.25
    assert after("f").interval == 0.25
    assert after("ff").interval == 1.0
    assert after("+", replace(LIST, interval=1.5)).interval == 2.0
    assert after("-", replace(LIST, interval=60.0)).interval == 30.0
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


def test_keys_without_a_server():
    """No key fails. The loop carries out q and d."""
    for key in ("enter", "tab", "up", "down", "t", "[", "v", "escape", "right", "\N{SNOWMAN}"):
        assert isinstance(handle_key(key, Navigation(), [], ()), Navigation)
    assert handle_key("q", Navigation(), SERVERS, WINDOWS) == "quit"
    assert handle_key("d", Navigation(), SERVERS, WINDOWS) == "dump"


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
    gone = select_server(Navigation(view="workers", server=A, chosen=True, home="tree"), [B], [B])
    assert (gone.view, gone.server) == ("tree", B)
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
    """Names in natural order; figures downwards, unknown ones last in both directions."""
    entries = [entry(summary, name) for name in ("shop10", "Shop2", "shop1", "10", "9", "a", "x\u00b2")]
    assert names(arrange_entries(entries, sort="name")) == ["9", "10", "a", "shop1", "Shop2", "shop10", "x\u00b2"]
    assert natural_key("a010b") < natural_key("a11b")
    entries = [entry(summary, str(rate), throughput=rate) for rate in (1.0, None, 3.0)]
    assert names(arrange_entries(entries, sort="throughput")) == ["3.0", "1.0", "None"]
    assert names(arrange_entries(entries, sort="throughput", reverse=True)) == ["1.0", "3.0", "None"]


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
    assert names(arrange_entries(entries, reverse=True)) == expected[::-1]


@pytest.mark.parametrize(("text", "found"), [("WEB", ["web1"]), ("down", ["web1"]), ("critical", ["db"]), ("zz", [])])
def test_a_filter_matches_names_states_and_statuses(summary, text, found):
    """The filter ignores case."""
    entries = [entry(summary, "web1", state="down", status="unknown"), entry(summary, "db")]
    assert names(arrange_entries(entries, text)) == found


def vassal(name: str, pid: int) -> Vassal:
    return Vassal(
        name=name,
        pid=pid,
        ready=True,
        accepting=True,
        loyal=False,
        cursed=False,
        respawns=0,
        age=60.0,
        heartbeat_age=None,
    )


def emperor(name: str, *vassals: Vassal, throttled: tuple[Throttled, ...] = ()) -> Server:
    watched = replace(ScriptedWatch(name).document(), state="up", status="ok", kind="emperor")
    return replace(watched, emperor=Emperor(vassals=vassals, throttled=throttled))


def model(*members: tuple[Server, Identity | None]) -> ScreenModel:
    identified = [replace(server, identity=identity) for server, identity in members]
    return replace(screen_model(*identified), family={(0, server.name): server for server in identified})


def server(name: str) -> Server:
    return replace(hot(), name=name)


def shape(of: ScreenModel) -> list[tuple[int, str, str]]:
    return [(branch.depth, branch.name, branch.state) for branch in grow_tree(of.entries, of.family)]


@pytest.fixture(scope="module")
def fleet():
    throttled = (Throttled(name="bad.ini", delay=3.0, attempts=5),)
    vassals = [vassal(name, pid) for name, pid in (("shop10.ini", 10), ("shop2.ini", 2), ("mute.ini", 3))]
    of_all = emperor("emperor", *vassals, throttled=throttled)
    return model(
        (of_all, Identity(pid=1)),
        (server("ten"), Identity(pid=10, emperor_pid=1)),
        (server("two"), Identity(pid=2, emperor_pid=1)),
        (server("alone"), Identity(pid=9)),
    )


def test_servers_hang_below_their_emperor(fleet):
    """Vassals are in natural order; those without stats and throttled ones are named."""
    assert shape(fleet) == [
        (0, "emperor", ""),
        (1, "mute.ini", "accepting"),
        (1, "two", "accepting"),
        (1, "ten", "accepting"),
        (1, "bad.ini", "throttled"),
        (0, "alone", ""),
    ]
    drawn = lines(fleet, Navigation(view="tree", home="tree", server=(0, "ten"), chosen=True))
    rows = [line.split() for line in drawn[2:8]]
    assert rows[1][:4] == ["├─", "mute.ini", "no", "stats"]
    assert rows[3][:6] == [">", "├─", "ten", "(shop10.ini)", "CRITICAL", "1.0x"]
    assert rows[4] == ["└─", "bad.ini", "throttled"]
    assert rows[5][:2] == ["alone", "CRITICAL"]


def test_wrong_pids_lose_no_server():
    """A PID of another host or emperor is no vassal's."""
    of_all = emperor("emperor", vassal("a.ini", 5))
    for identity in (Identity(pid=5, host="b"), Identity(pid=5, host="a", emperor_pid=99), Identity(), None):
        found = shape(model((of_all, Identity(pid=1, host="a")), (server("shop"), identity)))
        assert sorted(found) == [(0, "emperor", ""), (0, "shop", ""), (1, "a.ini", "accepting")]
    circle = model(
        (emperor("a", vassal("b.ini", 2)), Identity(pid=1)), (emperor("b", vassal("a.ini", 1)), Identity(pid=2))
    )
    names = [name for _, name, _ in shape(circle)]
    assert (names.count("a"), names.count("b")) == (1, 1)
    twice = model(
        (emperor("a", vassal("b.ini", 2)), Identity(pid=1)),
        (server("one"), Identity(pid=2)),
        (server("other"), Identity(pid=2)),
    )
    assert sorted(name for _, name, _ in shape(twice)) == ["a", "one", "other"]


def test_an_emperor_of_emperors():
    """Before the documents are there, no server is below another."""
    found = shape(
        model(
            (emperor("top", vassal("sub.ini", 2)), Identity(pid=1)),
            (emperor("sub", vassal("shop.ini", 3)), Identity(pid=2)),
            (server("shop"), Identity(pid=3)),
        )
    )
    assert found == [(0, "top", ""), (1, "sub", "accepting"), (2, "shop", "accepting")]
    listed = screen_model(server("b"), server("a"))
    assert {name for _, name, _ in shape(listed)} == {"a", "b"}
