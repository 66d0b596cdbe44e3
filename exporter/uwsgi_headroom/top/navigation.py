"""Holds the data on the screen and the state of the screen, which keys change.

A server stays selected as servers come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from uwsgi_headroom.check.tables import SORTS, sort_by_figure
from uwsgi_headroom.documents.build import natural, urgency
from uwsgi_headroom.documents.history import HistoryDocument
from uwsgi_headroom.documents.schema import ServerDocument, Summary
from uwsgi_headroom.top.feeds import NO_TREND

Key = tuple[int, str]
"""Identifies a server: index of its feed, and its name in that feed."""


class ServerEntry(Struct, frozen=True):
    """A server in the list, as of `seen_at` (epoch seconds)."""

    key: Key
    summary: Summary
    seen_at: float = 0.0


class ScreenModel(Struct, frozen=True):
    entries: tuple[ServerEntry, ...] = ()
    """Every listed server."""
    server: ServerDocument | None = None
    """The document of the selected server."""
    trend: HistoryDocument = NO_TREND
    """The history of that server."""
    troubles: Mapping[int, str] = field(default_factory=dict)
    """Why a feed returned nothing new, by index of the feed. Its servers are then shown as last seen."""
    where: str = ""
    """The exporters and servers to which top is attached."""
    notice: str = ""
    """A temporary message."""
    complete: bool = True
    """Whether every feed has listed its servers."""


SERVER_SORTS = {"u": "urgency", "n": "name", "r": "requests/s", "w": "response time", "b": "in service"}
"""The keys that sort the list of servers."""

_FIGURES: Mapping[str, Callable[[Summary], float | None]] = {
    "requests/s": lambda summary: summary.throughput,
    "response time": lambda summary: summary.response_time,
    "in service": lambda summary: summary.observed,
}


def arrange_entries(entries: Sequence[ServerEntry], text: str = "", sort: str = "urgency") -> list[ServerEntry]:
    """Filter and sort servers: by urgency as the API does, by figures the largest first."""
    shown = [entry for entry in entries if text.casefold() in _words(entry.summary).casefold()]
    if sort == "urgency":
        return sorted(shown, key=lambda entry: urgency(entry.summary))
    if sort == "name":
        return sorted(shown, key=lambda entry: natural(entry.summary.name))
    return sort_by_figure(shown, lambda entry: _FIGURES[sort](entry.summary))


def _words(summary: Summary) -> str:
    return f"{summary.name} {summary.address} {summary.state} {summary.status}"


T = TypeVar("T")

View = Literal["servers", "workers", "threads", "findings", "events", "plots", "routes", "code", "help"]

LIST: View = "servers"
"""The view of all servers; every other view except help shows the selected server."""

_PAGES: Mapping[str, View] = {"a": "findings", "e": "events", "p": "plots", "t": "threads", "P": "routes", "C": "code"}
_FIRST = -100_000
_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, "home": _FIRST, "end": -_FIRST}
_SERVERS = {"tab": 1, "backtab": -1}
_WINDOWS = {"]": 1, "[": -1}
_FILTERED = (LIST, "workers", "events", "routes", "code")


class Navigation(Struct, frozen=True):
    """The state of the screen. What begins with `fleet` is of the lists of servers."""

    view: View = "servers"
    before: View = "servers"
    """The view from which help was opened."""
    server: Key | None = None
    """The selected server, None before the first."""
    chosen: bool = False
    """Whether a person selected this server; else the first one is selected."""
    first: int = 0
    """First row in view."""
    column: int = 0
    """First scrolled column in view."""
    sort: str = "share"
    fleet_sort: str = "urgency"
    fleet_filter: str = ""
    row_filter: str = ""
    typing: bool = False
    """Whether keys edit the filter."""
    interval: float = 1.0
    """Seconds between two polls."""
    window: float | None = None
    """Seconds; None for the feed's default."""
    paused: bool = False

    @property
    def filter(self) -> str:
        return self.fleet_filter if self.view == LIST else self.row_filter


def handle_key(key: str, navigation: Navigation, servers: Sequence[Key], windows: Sequence[float]) -> Navigation | None:
    """Return the state after a key; None to quit. servers: in the order shown; windows: of the selected server, in
    seconds."""
    if navigation.typing:
        return _edit_filter(key, navigation)
    if key in _PAGES:
        return _open_page(navigation, _PAGES[key])
    if key in _STEPS:
        return _move(navigation, _STEPS[key], servers)
    if key in _SERVERS:
        return _next_server(navigation, servers, _SERVERS[key])
    if key in _WINDOWS and windows:
        return replace(navigation, window=_step(sorted(windows), navigation.window, _WINDOWS[key]))
    return _HANDLERS[key](navigation) if key in _HANDLERS else _sort(key, navigation)


def _sort(key: str, navigation: Navigation) -> Navigation:
    if navigation.view == LIST and key in SERVER_SORTS:
        return replace(navigation, fleet_sort=SERVER_SORTS[key], chosen=False)
    if navigation.view != LIST and key in SORTS:
        return replace(_open(navigation, "workers"), sort=SORTS[key], first=0)
    return navigation


def _edit_filter(key: str, navigation: Navigation) -> Navigation:
    text = navigation.filter
    if key in ("enter", "escape"):
        return replace(_set_filter(navigation, text * (key == "enter")), typing=False)
    if key == "backspace":
        return _set_filter(navigation, text[:-1])
    return _set_filter(navigation, text + key) if len(key) == 1 and key.isprintable() else navigation


def _set_filter(navigation: Navigation, text: str) -> Navigation:
    if navigation.view == LIST:
        return replace(navigation, fleet_filter=text, first=0)
    return replace(navigation, row_filter=text, first=0)


def _back(navigation: Navigation) -> Navigation:
    """Go back one step: from help, a filter, a page or a server."""
    if navigation.view == "help":
        return _open(navigation, navigation.before)
    if navigation.filter:
        return _set_filter(navigation, "")
    return _open(navigation, "workers" if navigation.view in _PAGES.values() else LIST)


def _open_page(navigation: Navigation, view: View) -> Navigation:
    """Open a page of the selected server; its key closes it too."""
    if navigation.server is None:
        return navigation
    return replace(_open(navigation, "workers" if navigation.view == view else view), chosen=True)


def _open(navigation: Navigation, view: View) -> Navigation:
    if view == navigation.view:
        return navigation
    return replace(navigation, view=view, first=0, column=0, row_filter="")


def _next_server(navigation: Navigation, servers: Sequence[Key], by: int) -> Navigation:
    if not servers or navigation.view == "help":
        return navigation
    place = servers.index(navigation.server) + by if navigation.server in servers else 0
    return replace(navigation, server=servers[place % len(servers)], chosen=True, first=0)


def _move(navigation: Navigation, by: int, servers: Sequence[Key]) -> Navigation:
    if navigation.view != LIST:
        return replace(navigation, first=max(0, navigation.first + by))
    if not servers:
        return navigation
    return replace(navigation, server=_step(servers, navigation.server, by), chosen=by != _FIRST)


def _step(choices: Sequence[T], chosen: object, by: int) -> T:
    """The choice so many steps further, or the one at the end; from the first one if none is chosen."""
    place = choices.index(chosen) if chosen in choices else 0
    return choices[min(len(choices) - 1, max(0, place + by))]


def _move_sideways(navigation: Navigation, by: int) -> Navigation:
    if navigation.view != "workers":
        return navigation
    return replace(navigation, column=max(0, navigation.column + by))


_HANDLERS: Mapping[str, Callable[[Navigation], Navigation | None]] = {
    "q": lambda _: None,
    "/": lambda state: replace(state, typing=state.view in _FILTERED),
    " ": lambda state: replace(state, paused=not state.paused),
    "?": lambda state: _back(state) if state.view == "help" else replace(_open(state, "help"), before=state.view),
    "escape": _back,
    "backspace": _back,
    "enter": lambda state: _open_page(state, "workers") if state.view == LIST else state,
    "left": lambda state: _move_sideways(state, -1),
    "right": lambda state: _move_sideways(state, 1),
}


def select_server(
    navigation: Navigation, listed: Sequence[Key], shown: Sequence[Key], *, complete: bool = True
) -> Navigation:
    """Return the state with an existing server selected.

    listed: all servers; shown: those that match the filter, in the order of the list. Until a person selects a server,
    the first one in the list is selected. A single server is opened once the list is complete. A selected server stays
    selected until its feed has listed its servers.
    """
    server = navigation.server
    first = next(iter(shown), None)
    if navigation.view == LIST:
        if not navigation.chosen and complete and len(listed) == 1:
            return replace(navigation, server=listed[0], chosen=True, view="workers")
        if navigation.chosen and server in shown:
            return navigation
        return replace(navigation, server=first, chosen=False)
    if server is None or server in listed or not any(key[0] == server[0] for key in listed):
        return navigation
    return replace(navigation, server=first, chosen=False, view=LIST, first=0)
