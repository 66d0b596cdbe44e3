"""Builds the page of a server's events, newest first."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from rich.text import Text

from uwsgi_headroom.journal.events import Event
from uwsgi_headroom.terminal_text import wrap
from uwsgi_headroom.top.view.figures import age
from uwsgi_headroom.top.view.page import Page
from uwsgi_headroom.words.states import EVENTS

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
