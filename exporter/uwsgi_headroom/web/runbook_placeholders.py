"""Placeholders in the commands of runbooks, and their values for one server.

A value comes from uWSGI, from a path or from the request, so it may be hostile: in shell it is quoted as one word, in
PromQL it is escaped as a part of a string, and in HTML it is escaped once more. A value that cannot be typed (a line
break, an invisible or reversing character) fills nothing in.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from html import escape
from unicodedata import bidirectional

MEANINGS = {
    "SERVER": "the server's name, the label `server`",
    "SERVER_API": "the address of its document at the exporter, `http://HOST:9238/api/v1/servers/NAME`",
    "STATS": "the address of its stats server",
    "EXPORTER": "the exporter's address, `http://HOST:9238`",
    "MASTER_PID": "the PID of uWSGI's master",
    "WORKER_PID": "the PID of a worker",
    "WORKER_PIDS": "the PIDs of all workers",
    "UNIT": "uWSGI's systemd unit; `ps -o unit= -p PID` prints it for a PID of uWSGI",
}
"""What a runbook says of each in its paragraph `In commands`."""

PLACEHOLDER = re.compile(rf"(?<![\w$])(?:{'|'.join(sorted(MEANINGS, key=len, reverse=True))})(?!\w)")

Values = Mapping[str, str]
"""By placeholder. WORKER_PIDS is several words of digits; all others are one word."""


def is_typeable(value: str) -> bool:
    """Whether a person can copy a value into a terminal, and sees what it does there."""
    return value != "" and value.isprintable() and not any(map(_is_right_to_left, value))


def _is_right_to_left(character: str) -> bool:
    return bidirectional(character) in ("R", "AL")


def fill_code(code: str, language: str, values: Values) -> str:
    """The HTML of a command or a query with its placeholders filled in, and those without a value marked."""
    html, end = [], 0
    for match in PLACEHOLDER.finditer(code):
        html += [escape(code[end : match.start()]), _fill(match, language, values)]
        end = match.end()
    return "".join([*html, escape(code[end:])])


def _fill(match: re.Match[str], language: str, values: Values) -> str:
    name, value = match[0], values.get(match[0])
    if value is None:
        return f"<mark>{name}</mark>"
    in_string = match.string[match.start() - 1 : match.start()] == '"'
    if in_string or language == "promql":
        text = value.replace("\\", "\\\\").replace('"', '\\"')
    else:
        text = value if name == "WORKER_PIDS" else shlex.quote(value)
    return f"<b>{escape(text)}</b>"


def used_placeholders(text: str) -> set[str]:
    """The placeholders in a text."""
    return set(PLACEHOLDER.findall(text))
