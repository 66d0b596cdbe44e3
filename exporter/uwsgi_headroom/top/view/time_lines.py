"""Builds the lines of a server's head that say what requests spend their time on: figures, and a bar of the parts."""

from __future__ import annotations

from rich.cells import set_cell_size
from rich.text import Text

from uwsgi_headroom.documents.request_time import RequestTime, TimePart, split_request_time
from uwsgi_headroom.documents.schema import Server
from uwsgi_headroom.terminal_text import escape_text
from uwsgi_headroom.words.states import WAITS

_LABEL = "time         "
_EDGE = "│"
_SWITCHED_OFF = "off:"


def time_lines(server: Server, width: int) -> tuple[Text, Text] | None:
    """Build the line of figures and the bar; None if the time is not known or no request was in service."""
    time = split_request_time(server.waits) if server.waits else None
    return (_figures(time, width), _bar(time, width)) if time else None


def why_not_known(server: Server) -> Text | None:
    """Build one line with the first clause of the reason why the time is not known; the page of advice has the whole.
    None if the time is known, if the exporter's settings switch it off, or if the document has no reason."""
    why = next((unknown.why for unknown in server.unknown if unknown.what == "waits"), None)
    if server.waits or why is None or why.startswith(_SWITCHED_OFF):
        return None
    return Text(_LABEL, "bold").append(f"not known: {why.partition(': ')[0]}", "not bold dim")


def _figures(time: RequestTime, width: int) -> Text:
    """Write the parts, largest first, in the unit of the whole. An ellipsis replaces those that do not fit."""
    whole = time.whole.size if time.whole.per_request is not None else f"{time.whole.size} {time.unit}"
    unit = time.whole.size.removeprefix(time.whole.size.split()[0])
    line = Text(_LABEL, "bold").append(whole, "bold").append(": ", "not bold")
    for place, part in enumerate(time.parts):
        text = Text(f"{', ' if place else ''}{_name(part)} {part.size.removesuffix(unit)}", "not bold")
        is_last = place == len(time.parts) - 1
        if line.cell_len + text.cell_len + (0 if is_last else len(" …")) > width:
            return line.append(" …" if place else "…", "not bold")
        line.append_text(text)
    return line


def _bar(time: RequestTime, width: int) -> Text:
    """Draw the parts in the order of the figures, each as long as its share, with its name if that fits."""
    room = max(0, width - len(_LABEL) - len(_EDGE))
    line = Text(" " * len(_LABEL))
    start, so_far = 0, 0.0
    for part in time.parts:
        so_far += part.threads
        end = round(room * so_far / time.whole.threads)
        line.append(set_cell_size(_EDGE + _name(part), end - start), WAITS[part.state].terminal)
        start = end
    return line.append(_EDGE)


def _name(part: TimePart) -> str:
    return escape_text(part.backend) if part.backend is not None else WAITS[part.state].short
