"""Builds the line that identifies a server: master, host, application, configuration."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.terminal_text import escape_text
from uwsgi_headroom.top.view.figures import age, cut_middle

_LABEL = "instance     "
_LEAST_PATH = 12  # least columns for the name of an application or a file, else the name is left out


def identity_lines(server: Server, width: int) -> Iterator[Text]:
    """Build one line: master's PID, uptime and host, then application and configuration file if they fit."""
    identity = server.identity
    if identity is None:
        return
    short = [
        f"master pid {identity.pid}" if identity.pid else "",
        f"up {age(identity.uptime)}" if identity.uptime is not None and server.state == "up" else "",
        f"on {escape_text(identity.host)}" if identity.host else "",
    ]
    line = Text(_LABEL + ", ".join(part for part in short if part))
    line.stylize("bold", 0, len(_LABEL))
    for label, value in (("app ", identity.application), ("config ", identity.configuration_file)):
        before = ", " if len(line) > len(_LABEL) else ""
        room = width - line.cell_len - len(before) - len(label)
        if value and room >= min(len(value), _LEAST_PATH):
            line.append(before + label + cut_middle(escape_text(value), room))
    yield line
