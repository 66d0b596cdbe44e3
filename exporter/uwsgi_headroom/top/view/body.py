"""Builds the body of the screen: one page for each view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from rich.text import Text

from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.top.navigation import Navigation
from uwsgi_headroom.top.servers import Branch, Key, ScreenModel, ServerEntry, arrange_entries, grow_tree, matches
from uwsgi_headroom.top.view import pages, plots
from uwsgi_headroom.top.view.help_page import help_lines
from uwsgi_headroom.top.view.scrolling import Page
from uwsgi_headroom.top.view.server_table import detail_lines, server_table, tree_table
from uwsgi_headroom.top.view.worker_table import worker_table

LEAST_HEAD = 6  # lines below the verdict that workers do not push out
_FRAME = 2  # title and totals of a table
_ROOMY = 15  # least lines of a body with room for the verdict of the selected server


@dataclass(frozen=True, slots=True)
class Space:
    """The space of the body, and what else it depends on."""

    width: int
    lines: int
    """About how many."""

    now: float
    """Epoch seconds."""

    detailed: bool = True
    """Whether the selected server's verdict is shown below a list."""


def build_body(model: ScreenModel, navigation: Navigation, space: Space) -> tuple[Page, int]:
    """Build the body; returns also the first scrolled column in view."""
    if navigation.view in _PAGES:
        return _PAGES[navigation.view](model, navigation, space), 0
    server = model.server
    if server is None:
        return Page(None, [Text("Waiting for the server's document.")]), 0
    if navigation.view in _SERVER_PAGES:
        return _SERVER_PAGES[navigation.view](server, model, navigation, space), 0
    lines: Iterable[Text] | None = None
    if server.emperor:
        lines = pages.emperor_lines(server.emperor, space.width)
    elif server.router:
        lines = pages.router_lines(server.router, space.width)
    elif navigation.view == "threads":
        lines = pages.thread_lines(server, navigation.sort, navigation.reverse, space.width)
    if lines is not None or not server.workers:
        title, *rows = lines or [Text()]
        return Page(title, rows), 0
    return worker_table(
        server,
        navigation.sort,
        navigation.reverse,
        space.width,
        navigation.column,
        navigation.row_filter,
        max(0, space.lines - LEAST_HEAD - _FRAME),
    )


def list_keys(model: ScreenModel, navigation: Navigation) -> list[Key]:
    """List the servers in the order shown."""
    if navigation.home == "tree":
        return [branch.entry.key for branch in _branches(model, navigation) if branch.entry]
    return [entry.key for entry in _entries(model, navigation)]


def _entries(model: ScreenModel, navigation: Navigation) -> list[ServerEntry]:
    return arrange_entries(
        model.entries, navigation.fleet_filter, navigation.fleet_sort, reverse=navigation.fleet_reverse
    )


def _branches(model: ScreenModel, navigation: Navigation) -> list[Branch]:
    text = navigation.fleet_filter
    return [
        branch
        for branch in grow_tree(arrange_entries(model.entries, sort="name"), model.family)
        if text.casefold() in branch.name.casefold() or (branch.entry and matches(branch.entry.summary, text))
    ]


def _servers(model: ScreenModel, navigation: Navigation, space: Space) -> Page:
    table = server_table(model, _entries(model, navigation), navigation.server, space.width, space.now)
    return _with_detail(table, model, navigation, space)


def _tree(model: ScreenModel, navigation: Navigation, space: Space) -> Page:
    table = tree_table(model, _branches(model, navigation), navigation.server, space.width)
    return _with_detail(table, model, navigation, space)


def _with_detail(table: Page, model: ScreenModel, navigation: Navigation, space: Space) -> Page:
    if not space.detailed or space.lines < _ROOMY:
        return table
    return replace(table, detail=detail_lines(model.entries, navigation.server, space.width))


_PAGES: Mapping[str, Callable[[ScreenModel, Navigation, Space], Page]] = {
    "help": lambda _, __, space: Page(None, help_lines(space.width)),
    "servers": _servers,
    "tree": _tree,
}

_SERVER_PAGES: Mapping[str, Callable[[Server, ScreenModel, Navigation, Space], Page]] = {
    "findings": lambda server, model, _, space: Page(None, list(pages.finding_lines(server, space.width, space.now))),
    "events": lambda server, _, navigation, space: pages.event_page(
        server.events, navigation.row_filter, space.width, space.now
    ),
    "routes": lambda server, _, navigation, space: pages.route_page(server, navigation.row_filter, space.width),
    "code": lambda server, _, navigation, space: pages.code_page(server, navigation.row_filter, space.width),
    "plots": lambda _, model, __, space: Page(None, plots.plot_lines(model.trend, space.width, space.lines)),
}
