"""Holds the state of the screen, changes it with each key, and keeps a server selected as servers come and go.

A handler of a key takes the key, the state, and the servers in the order shown, and returns the next state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.check.worker_table import SORTS
from uwsgi_headroom.top.servers import SERVER_SORTS, Key

View = Literal["servers", "workers", "threads", "findings", "events", "plots", "routes", "code", "help"]

LIST: View = "servers"
"""The view of all servers; every other view except help shows the selected server."""

NORMAL = 1.0

_PAGES: Mapping[str, View] = {"a": "findings", "e": "events", "p": "plots", "t": "threads", "P": "routes", "C": "code"}
_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -10, "pagedown": 10, "home": -100_000, "end": 100_000}
_ALIASES = {" ": "space"}


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
    interval: float = NORMAL
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
    key = _ALIASES.get(key, key)
    if key == "q":
        return None
    if key in _HANDLERS:
        return _HANDLERS[key](key, navigation, servers)
    if key in ("[", "]"):
        return _change_window(navigation, sorted(windows), 1 if key == "]" else -1)
    return _sort(key, navigation)


def _sort(key: str, navigation: Navigation) -> Navigation:
    if navigation.view == LIST and key in SERVER_SORTS:
        return replace(navigation, fleet_sort=SERVER_SORTS[key], chosen=False)
    if navigation.view != LIST and key in SORTS:
        return replace(_open(navigation, "workers"), sort=SORTS[key], first=0)
    return navigation


def _edit_filter(key: str, navigation: Navigation) -> Navigation:
    text = navigation.filter
    if key in ("enter", "escape"):
        return replace(_set_filter(navigation, text if key == "enter" else ""), typing=False)
    if key == "backspace":
        return _set_filter(navigation, text[:-1])
    return _set_filter(navigation, text + key) if len(key) == 1 and key.isprintable() else navigation


def _set_filter(navigation: Navigation, text: str) -> Navigation:
    if navigation.view == LIST:
        return replace(navigation, fleet_filter=text, first=0)
    return replace(navigation, row_filter=text, first=0)


def _begin_filter(_key: str, navigation: Navigation, _servers: Sequence[Key]) -> Navigation:
    filtered = navigation.view in (LIST, "workers", "events", "routes", "code")
    return replace(navigation, typing=True) if filtered else navigation


def _pause(_key: str, navigation: Navigation, _servers: Sequence[Key]) -> Navigation:
    return replace(navigation, paused=not navigation.paused)


def _help(_key: str, navigation: Navigation, _servers: Sequence[Key]) -> Navigation:
    if navigation.view == "help":
        return _open(navigation, navigation.before)
    return replace(_open(navigation, "help"), before=navigation.view)


def _back(_key: str, navigation: Navigation, _servers: Sequence[Key]) -> Navigation:
    """Go back one step: from help, a filter, a page or a server."""
    if navigation.view == "help":
        return _open(navigation, navigation.before)
    if navigation.filter:
        return _set_filter(navigation, "")
    return _open(navigation, "workers" if navigation.view in _PAGES.values() else "servers")


def _list(_key: str, navigation: Navigation, _servers: Sequence[Key]) -> Navigation:
    return _open(navigation, "servers")


def _open_page(key: str, navigation: Navigation, _servers: Sequence[Key]) -> Navigation:
    if navigation.server is None:
        return navigation
    view = _PAGES[key]
    return replace(_open(navigation, "workers" if navigation.view == view else view), chosen=True)


def _enter(_key: str, navigation: Navigation, _servers: Sequence[Key]) -> Navigation:
    if navigation.server is None or navigation.view != LIST:
        return navigation
    return replace(_open(navigation, "workers"), chosen=True)


def _open(navigation: Navigation, view: View) -> Navigation:
    if view == navigation.view:
        return navigation
    return replace(navigation, view=view, first=0, column=0, row_filter="")


def _next_server(key: str, navigation: Navigation, servers: Sequence[Key]) -> Navigation:
    if not servers or navigation.view == "help":
        return navigation
    by = -1 if key == "backtab" else 1
    place = servers.index(navigation.server) + by if navigation.server in servers else 0
    return replace(navigation, server=servers[place % len(servers)], chosen=True, first=0)


def _move(key: str, navigation: Navigation, servers: Sequence[Key]) -> Navigation:
    if navigation.view != LIST:
        return replace(navigation, first=max(0, navigation.first + _STEPS[key]))
    if not servers:
        return navigation
    place = servers.index(navigation.server) if navigation.server in servers else 0
    place = min(len(servers) - 1, max(0, place + _STEPS[key]))
    return replace(navigation, server=servers[place], chosen=key != "home")


def _move_sideways(key: str, navigation: Navigation, _servers: Sequence[Key]) -> Navigation:
    if navigation.view != "workers":
        return navigation
    return replace(navigation, column=max(0, navigation.column + (1 if key == "right" else -1)))


def _change_window(navigation: Navigation, windows: Sequence[float], by: int) -> Navigation:
    """Choose the next window in this direction, or the last one."""
    if not windows:
        return navigation
    place = windows.index(navigation.window) if navigation.window in windows else 0
    return replace(navigation, window=windows[min(len(windows) - 1, max(0, place + by))])


_HANDLERS: Mapping[str, Callable[[str, Navigation, Sequence[Key]], Navigation]] = {
    "/": _begin_filter,
    "space": _pause,
    "?": _help,
    "escape": _back,
    "backspace": _back,
    "l": _list,
    "enter": _enter,
    "tab": _next_server,
    "backtab": _next_server,
    "left": _move_sideways,
    "right": _move_sideways,
    **dict.fromkeys(_PAGES, _open_page),
    **dict.fromkeys(_STEPS, _move),
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
    if not navigation.chosen and complete and len(listed) == 1 and navigation.view == "servers":
        return replace(navigation, server=listed[0], chosen=True, view="workers")
    if navigation.view == LIST:
        if navigation.chosen and server in shown:
            return navigation
        return replace(navigation, server=shown[0] if shown else None, chosen=False)
    if server is None or server in listed or not any(key[0] == server[0] for key in listed):
        return navigation
    return replace(navigation, server=shown[0] if shown else None, chosen=False, view="servers", first=0)
