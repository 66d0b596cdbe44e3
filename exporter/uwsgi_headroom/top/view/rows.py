"""Cuts a page of rows to the part that fits the screen.

Builds the page of a server's events, newest first.

Builds the page of the routes that hold the busy threads, and its line in the head.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from uwsgi_headroom.documents import Route
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.documents.sentences import describe_routes
from uwsgi_headroom.journal.events import Event
from uwsgi_headroom.terminal_text import bar, escape_text, wrap
from uwsgi_headroom.top.view.figures import age, cut_middle, percent
from uwsgi_headroom.words.states import EVENTS


@dataclass(frozen=True, slots=True)
class Page:
    """Rows that scroll between a title and totals. selected: a row to keep in view; detail: lines at the end."""

    title: Text | None
    rows: Sequence[Text]
    totals: Text | None = None
    selected: int | None = None
    detail: Sequence[Text] = ()

    @property
    def height(self) -> int:
        """Lines of the whole page."""
        return len(self.rows) + (self.title is not None) + (self.totals is not None) + len(self.detail)


def fit_page(page: Page, first: int, lines: int) -> tuple[list[Text], int]:
    """Return at most `lines` lines of a page, from row `first` if there are enough rows, and the first row in view.

    If rows do not fit, a line says how many are above and below.
    """
    room = lines - (page.title is not None)
    detail = list(page.detail) if room - len(page.detail) >= len(page.detail) + 2 else []
    room -= len(detail)
    totals = [page.totals] if page.totals is not None and room > 2 else []
    room -= len(totals)
    head = [page.title] if page.title is not None and lines > 0 else []
    if len(page.rows) <= room:
        gap = [Text()] * (room - len(page.rows)) if detail else []
        return [*head, *page.rows, *totals, *gap, *detail], 0
    rows = max(0, room - 1 if room > 1 else room)
    first = max(0, min(first, len(page.rows) - rows))
    if page.selected is not None:
        first = min(max(first, page.selected - rows + 1), page.selected)
    mark = [_mark(first, len(page.rows) - first - rows)] if room > 1 else []
    return [*head, *page.rows[first : first + rows], *mark, *totals, *detail], first


def _mark(above: int, below: int) -> Text:
    parts = ([f"↓ {below} more below"] if below else []) + ([f"↑ {above} above"] if above else [])
    return Text("    " + ", ".join(parts), "bold cyan")


_INDENT = " " * 17


def event_page(events: Sequence[Event], text: str, width: int, now: float) -> Page:
    """Build the page of the events that match a filter, with local times."""
    zone = time.strftime("%Z", time.localtime(now))[:5]
    title = Text(f"{f'TIME {zone:7} AGO  EVENT':{width}}"[:width], "reverse")
    shown = [event for event in events if text.casefold() in f"{event.kind} {event.title}".casefold()]
    rows = [row for event in shown for row in _rows(event, width, now)]
    return Page(title, rows or [Text("No event matches the filter." if text else "No events so far.")])


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))


def _rows(event: Event, width: int, now: float) -> Iterator[Text]:
    local = time.localtime(event.time)
    today = local[:3] == time.localtime(now)[:3]
    moment = _clock(event.time) if today else time.strftime("%d %b %Hh", local)
    first = f"{moment:11}{age(max(0.0, now - event.time)):>4}  "
    often = f" ({event.count} times since {_clock(event.since)})" if event.count > 1 else ""
    for place, line in enumerate(wrap(event.title + often, width, first, _INDENT)):
        row = Text(line)
        row.stylize("dim", 0, len(first) if place == 0 else 0)
        row.stylize(EVENTS[event.kind].terminal if event.kind in EVENTS else "", len(first))
        yield row
    yield from (Text(line, "dim") for line in wrap(event.evidence, width, _INDENT, _INDENT))


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
