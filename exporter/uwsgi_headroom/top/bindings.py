"""The keys and their descriptions in the help."""

from __future__ import annotations

from typing import NamedTuple


class Binding(NamedTuple):
    """Keys with the same meaning. keys: as `handle_key` takes them; label: as the help shows them."""

    label: str
    meaning: str
    keys: tuple[str, ...]


BINDINGS = (
    Binding("q F10", "quit", ("q", "f10")),
    Binding("? h F1", "this help", ("?", "h", "f1")),
    Binding("up down j k", "select, scroll", ("up", "down", "j", "k")),
    Binding("PgUp PgDn", "ten lines", ("pageup", "pagedown")),
    Binding("Home End", "first, last", ("home", "end")),
    Binding("enter", "open the server", ("enter",)),
    Binding("esc", "go back one step", ("escape", "backspace")),
    Binding("l", "list of servers", ("l",)),
    Binding("v F5", "tree: emperors, vassals", ("v", "f5")),
    Binding("tab S-tab", "next, previous server", ("tab", "backtab")),
    Binding("left right", "more columns", ("left", "right")),
    Binding("/ F4", "filter rows", ("/", "f4")),
    Binding("a", "advice: all findings", ("a",)),
    Binding("e", "events", ("e",)),
    Binding("p", "plots over time", ("p",)),
    Binding("t", "threads", ("t",)),
    Binding("P", "routes: paths of requests", ("P",)),
    Binding("[ ]", "shorter, longer window", ("[", "]")),
    Binding("+ - f", "slower, faster, 4 per s", ("+", "-", "f")),
    Binding("space", "pause", ("space", " ")),
    Binding("d J", "write JSON to a file", ("d", "J")),
    Binding("R", "reverse the order", ("R",)),
    Binding("Ctrl-Z", "suspend; uWSGI goes on", ()),
)

SERVER_SORT_LABEL = "u urgency, n name, r requests/s, w response time, b in service"
WORKER_SORT_LABEL = (
    "s share, b busy, c CPU%, w response time, r requests, m memory, o oldest, x exceptions, g age, n number"
)
