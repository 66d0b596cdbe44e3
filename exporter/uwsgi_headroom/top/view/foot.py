"""Builds the last line: the filter being typed, a notice, or the most useful keys and the window of the figures."""

from __future__ import annotations

from rich.text import Text

from uwsgi_headroom.terminal_text import escape_text
from uwsgi_headroom.top.model import ScreenModel
from uwsgi_headroom.top.navigation import LISTS, Navigation
from uwsgi_headroom.words.formats import chosen, duration

_LIST_KEYS = ("q quit", "? help", "enter open", "/ filter", "v tree", "e events", "unrwb sort", "space pause")
_TREE_KEYS = ("q quit", "? help", "enter open", "/ filter", "v list")
_ROUTES_KEY = "P routes"
_SERVER_KEYS = (
    "q quit",
    "? help",
    "a advice",
    "e events",
    "p plots",
    "t threads",
    _ROUTES_KEY,
    "esc back",
    "left right columns",
    "/ filter",
    "[ ] window",
    "srwcbm sort",
)


def foot_line(model: ScreenModel, navigation: Navigation, width: int) -> Text:
    """Build the line. Hints that do not fit are left out from the right."""
    if navigation.typing:
        return (
            Text("filter: ", "bold")
            .append(navigation.filter)
            .append("_", "blink")
            .append("   enter keeps the filter, esc clears the filter", "dim")
        )
    if model.notice:
        return Text(model.notice, "reverse")
    right = _scope(model, navigation)
    line = Text()
    if navigation.filter and navigation.view != "help":
        line.append(f"filter: {escape_text(navigation.filter)} (esc clears)  ", "bold")
    for hint in _hints(model, navigation):
        if line.cell_len + len(hint) + len(right) + 2 > width:
            break
        line.append(f"{hint}  ", "dim")
    line.append(" " * max(0, width - len(right) - line.cell_len))
    return line.append(right)


def _hints(model: ScreenModel, navigation: Navigation) -> tuple[str, ...]:
    if navigation.view == "help":
        return ("q quit", "esc back")
    if navigation.view in LISTS:
        return _TREE_KEYS if navigation.view == "tree" else _LIST_KEYS
    has_routes = model.server is not None and model.server.routes is not None
    return tuple(hint for hint in _SERVER_KEYS if has_routes or hint != _ROUTES_KEY)


def _scope(model: ScreenModel, navigation: Navigation) -> str:
    """Return the window of the figures, and the interval between two polls."""
    often = f"every {chosen(navigation.interval)}"
    window = model.server.window if model.server and navigation.view not in LISTS else None
    if window is None or navigation.view in ("help", "plots"):
        return often
    young = f"{duration(window.seconds)} of " if window.seconds < 0.9 * window.asked else ""
    return f"over {young}{duration(window.asked)}, {often}"
