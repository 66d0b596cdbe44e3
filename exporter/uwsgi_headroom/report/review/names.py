"""Makes names harmless for all forms of a report: monitored machines choose them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from uwsgi_headroom.report.model import Column, ReviewData, ServerData
from uwsgi_headroom.terminal_text import escape_text

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
        events=tuple(replace(event, title=escape_text(event.title)) for event in server.events),
    )


def _keys(columns: Mapping[str, Column]) -> dict[str, Column]:
    return {_name(name): column for name, column in columns.items()}


def _name(name: str) -> str:
    return escape_text(name).replace("`", _BACKTICK)
