"""Fills in placeholders in the commands of runbooks with the values of one server.

A value comes from uWSGI, from a path or from the request, so it may be hostile. In shell commands, values are quoted as
one word; in PromQL, they are escaped as part of a string; in HTML, they are escaped once more. Values that cannot be
typed (with a line break, an invisible or a right-to-left character) are not filled in.
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
"""The meaning of each placeholder, as in the runbooks' paragraph `In commands`."""

PLACEHOLDER = re.compile(rf"(?<![\w$])(?:{'|'.join(sorted(MEANINGS, key=len, reverse=True))})(?!\w)")

Values = Mapping[str, str]
"""Values by placeholder. WORKER_PIDS is several words of digits; every other value is one word."""


def is_typeable(value: str) -> bool:
    """Whether a person who copies a value into a terminal sees its effect."""
    return value != "" and value.isprintable() and not any(map(_is_right_to_left, value))


def _is_right_to_left(character: str) -> bool:
    return bidirectional(character) in ("R", "AL")


def fill_code(code: str, language: str, values: Values) -> str:
    """Write the HTML of a command or a query, with placeholders filled in, or marked if they have no value."""
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
    """Return the placeholders in a text."""
    return set(PLACEHOLDER.findall(text))
