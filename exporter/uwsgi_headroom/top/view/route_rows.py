"""Builds the page of the routes that hold the busy threads, and its line in the head."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from uwsgi_headroom.documents.route_words import describe_routes
from uwsgi_headroom.documents.routes import Route
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.terminal_text import bar, escape_text
from uwsgi_headroom.top.view.figures import age, cut_middle, percent
from uwsgi_headroom.top.view.page import Page

_BAR = 10
_TITLE = "THREADS SHARE OF BUSY  NOW OLDEST  ROUTE"
_NAME_AT = _TITLE.index("ROUTE")
_LEAST_NAME = 12
_LABEL = "routes       "
_OFF = "Routes are off. An exporter shows them with --routes true; see its documentation first."


def route_page(server: Server, text: str, width: int) -> Page:
    """Build the page of the routes that match a filter, most busy threads first."""
    title = Text(f"{_TITLE:{width}}"[:width], "reverse")
    if server.routes is None:
        return Page(title, [Text(_OFF)])
    shown = [route for route in server.routes if text.casefold() in route.route.casefold()]
    stuck = server.threads.stuck_seconds if server.threads else math.inf
    rows = [_row(route, stuck, max(_LEAST_NAME, width - _NAME_AT)) for route in shown]
    return Page(title, rows or [Text("No route matches the filter." if text else "No thread was busy.")])


def route_lines(server: Server, width: int) -> Iterator[Text]:
    """Build one line with the routes that hold most busy threads, as many as fit; none if routes are off, or no thread
    was busy."""
    parts = [escape_text(part) for part in describe_routes(server.routes or ())]
    if not parts or server.state == "down":
        return
    room = width - len(_LABEL)
    text = parts[0]
    for part in parts[1:]:
        if cell_len(f"{text}; {part}") > room:
            break
        text = f"{text}; {part}"
    yield Text(_LABEL, "bold").append(cut_middle(text, room), "not bold")


def _row(route: Route, stuck_seconds: float, room: int) -> Text:
    line = Text(f"{route.threads:>7.1f} {percent(route.share):>4} ")
    line.append(f"{bar(route.share, 1.0, _BAR):{_BAR}}", "cyan").append(f"{route.in_service:>4} ")
    oldest = route.oldest_seconds
    line.append(f"{age(oldest):>6}", "bold red" if oldest is not None and oldest >= stuck_seconds else "")
    return line.append("  ").append(cut_middle(escape_text(route.route), room), "bold")
