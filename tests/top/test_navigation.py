"""What each key makes of what is looked at."""

from __future__ import annotations

import pytest

from uwsgi_headroom.top.navigation import Command, Navigation, handle_key
from uwsgi_headroom.top.view.worker_table import COLUMNS, SORTS

SERVERS = [(0, "a"), (0, "b"), (1, "a")]
WINDOWS = (60.0, 300.0)


def after(keys: str | list[str], navigation: Navigation | None = None) -> Navigation:
    outcome: Navigation | Command = navigation or Navigation(view="workers", server=SERVERS[0])
    for key in keys:
        assert isinstance(outcome, Navigation)
        outcome = handle_key(key, outcome, SERVERS, WINDOWS)
    assert isinstance(outcome, Navigation)
    return outcome


def test_every_sort_is_a_column() -> None:
    """And no key for one does something else before."""
    assert set(SORTS.values()) <= {column.name for column in COLUMNS}
    for key, name in SORTS.items():
        assert after([key]).sort == name


def test_r_turns_the_order_round_and_another_sort_turns_it_back() -> None:
    """R, and then m."""
    assert after("R").reverse
    assert not after("Rm").reverse


@pytest.mark.parametrize(
    ("keys", "view"),
    [("t", "threads"), ("tt", "workers"), ("a", "threads"), ("te", "findings"), ("t?", "help"), ("t??", "threads")],
)
def test_pages(keys: str, view: str) -> None:
    """A page's key opens it, and closes it."""
    assert after(keys).view == view


def test_servers_next_to_each_other() -> None:
    """Tab goes round; two servers of one name in two exporters are two."""
    assert after(["tab"]).server == (0, "b")
    assert after(["tab", "tab", "tab"]).server == (0, "a")
    assert after(["left"]).server == (1, "a")
    listed = Navigation(server=SERVERS[0])
    assert after(["down", "down", "down", "enter"], listed).server == (1, "a")
    assert after(["escape"]).view == "servers"


def test_windows_and_intervals_stop_at_their_ends() -> None:
    """[ and ] among the windows there are, - and + among the intervals, f there and back."""
    assert after("]").window == 300.0
    assert after("]]]").window == 300.0
    assert after("]][[[").window == 60.0
    assert after("+").interval == 2.0
    assert after("-" * 20).interval == 0.25
    assert after("f").interval == 0.25
    assert after("ff").interval == 1.0


def test_nothing_to_choose_from() -> None:
    """With no server at all, no key fails."""
    for key in ("enter", "tab", "up", "down", "t", "[", "v", "escape", "\N{SNOWMAN}"):
        assert isinstance(handle_key(key, Navigation(), [], ()), Navigation)


def test_commands() -> None:
    """q and d are for whoever runs it all."""
    assert handle_key("q", Navigation(), SERVERS, WINDOWS) == "quit"
    assert handle_key("d", Navigation(), SERVERS, WINDOWS) == "dump"
