"""Writes verdicts on several servers for a person: a line for each, worst first, then the details of any problem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.check.exit_status import find_worst
from uwsgi_headroom.check.summary import count_statuses, describe_headroom
from uwsgi_headroom.check.text_report import WIDTH
from uwsgi_headroom.check.text_report import render_lines as render_server
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.terminal_text import escape_text, wrap

_LONGEST_NAME = 24


def render_lines(judged: Sequence[Server]) -> Iterator[str]:
    """Write the whole report."""
    yield f"{find_worst(server.status for server in judged).upper()}  {count_statuses(judged)}"
    yield ""
    names = [escape_text(server.name) for server in judged]
    width = min(_LONGEST_NAME, max(map(len, names)))
    for name, server in zip(names, judged, strict=True):
        yield from _line(name, server, width)
    for server in judged:
        if (
            server.status != "ok" or server.what_if
        ) and server.state == "up":  # for the others, the line above is complete
            yield ""
            yield "-" * WIDTH
            yield from render_server(server)


def _line(name: str, server: Server, width: int) -> Iterator[str]:
    begin = f"{server.status.upper():8}  {name:{width}}  {describe_headroom(server):>5}  "
    indent = " " * (8 + 2 + width + 2 + 5 + 2)
    if len(name) > width:
        yield f"{server.status.upper():8}  {name}"
        begin = f"{'':8}  {'':{width}}  {describe_headroom(server):>5}  "
    yield from wrap(server.verdict, WIDTH, begin, indent)
