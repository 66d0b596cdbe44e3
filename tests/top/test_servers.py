"""The list of servers, its order and its filter, and the tree of emperors and vassals, built from PIDs."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.support.scripted_watch import ScriptedWatch
from tests.support.top_screen import hot, lines, screen_model
from uwsgi_headroom.documents.build import build_server_list
from uwsgi_headroom.documents.emperor_router import Emperor, Throttled, Vassal
from uwsgi_headroom.documents.schema import Identity, Server, Summary
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.servers import ScreenModel, ServerEntry, arrange_entries, grow_tree, natural_key


@pytest.fixture(scope="module")
def summary() -> Summary:
    return build_server_list([hot()], ScriptedWatch().clock).servers[0]


def entry(summary: Summary, name: str, **changes: object) -> ServerEntry:
    return ServerEntry((0, name), msgspec.structs.replace(summary, name=name, **changes))


def names(entries: list[ServerEntry]) -> list[str]:
    return [each.summary.name for each in entries]


def test_orders(summary: Summary) -> None:
    """Names in natural order; figures downwards, unknown ones last in both directions."""
    entries = [entry(summary, name) for name in ("shop10", "Shop2", "shop1", "10", "9", "a", "x\u00b2")]
    assert names(arrange_entries(entries, sort="name")) == ["9", "10", "a", "shop1", "Shop2", "shop10", "x\u00b2"]
    assert natural_key("a010b") < natural_key("a11b")
    entries = [entry(summary, str(rate), throughput=rate) for rate in (1.0, None, 3.0)]
    assert names(arrange_entries(entries, sort="throughput")) == ["3.0", "1.0", "None"]
    assert names(arrange_entries(entries, sort="throughput", reverse=True)) == ["1.0", "3.0", "None"]


def test_the_worst_come_first(summary: Summary) -> None:
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
def test_a_filter_matches_names_states_and_statuses(summary: Summary, text: str, found: list[str]) -> None:
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
    watched = msgspec.structs.replace(ScriptedWatch(name).document(), state="up", status="ok", kind="emperor")
    return msgspec.structs.replace(watched, emperor=Emperor(vassals=vassals, throttled=throttled))


def model(*members: tuple[Server, Identity | None]) -> ScreenModel:
    identified = [msgspec.structs.replace(server, identity=identity) for server, identity in members]
    return replace(screen_model(*identified), family={(0, server.name): server for server in identified})


def server(name: str) -> Server:
    return msgspec.structs.replace(hot(), name=name)


def shape(of: ScreenModel) -> list[tuple[int, str, str]]:
    return [(branch.depth, branch.name, branch.state) for branch in grow_tree(of.entries, of.family)]


@pytest.fixture(scope="module")
def fleet() -> ScreenModel:
    throttled = (Throttled(name="bad.ini", delay=3.0, attempts=5),)
    vassals = [vassal(name, pid) for name, pid in (("shop10.ini", 10), ("shop2.ini", 2), ("mute.ini", 3))]
    of_all = emperor("emperor", *vassals, throttled=throttled)
    return model(
        (of_all, Identity(pid=1)),
        (server("ten"), Identity(pid=10, emperor_pid=1)),
        (server("two"), Identity(pid=2, emperor_pid=1)),
        (server("alone"), Identity(pid=9)),
    )


def test_servers_hang_below_their_emperor(fleet: ScreenModel) -> None:
    """Vassals are in natural order; those without stats and throttled ones are named. A vassal has both names and its
    PID, and can be selected."""
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


def test_a_pid_of_another_host_or_of_another_emperor_is_no_vassal() -> None:
    """PIDs are valid on one machine, and are reused."""
    of_all = emperor("emperor", vassal("a.ini", 5))
    for identity in (Identity(pid=5, host="b"), Identity(pid=5, host="a", emperor_pid=99), Identity(), None):
        found = shape(model((of_all, Identity(pid=1, host="a")), (server("shop"), identity)))
        assert sorted(found) == [(0, "emperor", ""), (0, "shop", ""), (1, "a.ini", "accepting")]


def test_an_emperor_of_emperors() -> None:
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


def test_wrong_pids_lose_no_server() -> None:
    """With two emperors that claim each other, or two addresses of one master, every server appears once."""
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
