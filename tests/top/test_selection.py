"""The selected server, as servers come and go."""

from __future__ import annotations

from uwsgi_headroom.top.navigation import Navigation, select_server

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
    """A page leads back to the list or the tree from which it was opened."""
    gone = select_server(Navigation(view="workers", server=A, chosen=True, home="tree"), [B], [B])
    assert (gone.view, gone.server) == ("tree", B)


def test_a_server_whose_feed_has_not_answered_stays() -> None:
    """Another feed's servers do not replace it."""
    waiting = Navigation(view="workers", server=C, chosen=True)
    assert select_server(waiting, [], []) == waiting
    assert select_server(waiting, [A], [A]) == waiting
