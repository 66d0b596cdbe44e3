"""Writes what a report did not choose: times, in the zone of the review, and names, which monitored machines choose and
which are made harmless for all forms of a report."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from uwsgi_headroom.report.columns import STEP, Column, ReviewData, ServerData
from uwsgi_headroom.terminal_text import escape_text


def short_day(time: float, zone: ZoneInfo) -> str:
    """A day: `3 Mar 2027`."""
    local = datetime.fromtimestamp(time, zone)
    return f"{local.day} {local:%b %Y}"


def quarter_words(until: float, zone: ZoneInfo) -> str:
    """The quarter hour that ends at a time: `Friday, 25 September 2026, 14:00 to 14:15`."""
    start, end = (datetime.fromtimestamp(time, zone) for time in (until - STEP, until))
    return f"{start:%A}, {start.day} {start:%B %Y}, {start:%H:%M} to {end:%H:%M}"


def moment_words(time: float, zone: ZoneInfo) -> str:
    """A time: `25 Sep 2026 14:15`."""
    local = datetime.fromtimestamp(time, zone)
    return f"{local.day} {local:%b %Y %H:%M}"


_BACKTICK = "\\x60"
"""A backtick, which begins code in the sentences of a report, as an escape."""


def escape_names(data: ReviewData) -> ReviewData:
    """The data with names, titles and sentences in which no character is invisible or moves others. What HTML, Markdown
    and CSV take for markup stays, and each form escapes it."""
    return replace(
        data,
        servers=tuple(_server(server) for server in data.servers),
        source=escape_text(data.source),
        problems=tuple(map(escape_text, data.problems)),
        queries=tuple(replace(query, text=_name(query.text)) for query in data.queries),
    )


def _server(server: ServerData) -> ServerData:
    return replace(
        server,
        server=_name(server.server),
        service=_name(server.service),
        host=_name(server.host),
        backends=_keys(server.backends),
        routes=_keys(server.routes),
        socket_holders=server.socket_holders
        and {_name(socket): workers for socket, workers in server.socket_holders.items()},
        settings=server.settings and {_name(rule): severity for rule, severity in server.settings.items()},
        events=tuple(replace(event, title=escape_text(event.title)) for event in server.events),
    )


def _keys(columns: Mapping[str, Column]) -> dict[str, Column]:
    return {_name(name): column for name, column in columns.items()}


def _name(name: str) -> str:
    return escape_text(name).replace("`", _BACKTICK)
