"""Writes the lines of a monitoring plugin, and reports a `check` that has no verdict in the requested format.

The line is `STATUS - text | label=value` (Monitoring Plugins Development Guidelines). A pipe ends the text and a line
break ends the line, so a text contains neither. A label contains no pipes, line breaks, quotes, equals signs or spaces.
Any command line may fail, so this module imports little.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import NamedTuple

from uwsgi_headroom.terminal_text import escape_text, print_lines

_LONGEST_TEXT = 1000
"""In characters: version 2 of the NRPE protocol carries 1024 bytes, and a pager shows fewer."""


class Performance(NamedTuple):
    """A figure in a plugin's line. value None: unknown (`U`); unit: `s`, or empty for a plain number; warning and
    critical: ranges that are ok, such as `2:` (2 or more) and `0.5` (0 to 0.5), or empty; least and most: of all
    values."""

    label: str
    value: float | None
    unit: str = ""
    warning: str = ""
    critical: str = ""
    least: float | None = 0
    most: float | None = None


def render_line(status: str, text: str, figures: Iterable[Performance] = ()) -> str:
    """Write the line. status: `ok`, `warning`, `critical` or `unknown`."""
    harmless = escape_text(text).replace("|", "/")
    if len(harmless) > _LONGEST_TEXT:
        harmless = f"{harmless[: _LONGEST_TEXT - 3]}..."
    performance = " ".join(map(_render, figures))
    return f"{status.upper()} - {harmless} | {performance}".removesuffix(" | ")


def render_label(text: str) -> str:
    return re.sub(r"[^\w.:/@-]", "_", text)


def _render(figure: Performance) -> str:
    value = "U"
    if figure.value is not None and isfinite(figure.value):
        value = f"{_number(figure.value)}{figure.unit}"
    parts = (value, figure.warning, figure.critical, _number(figure.least), _number(figure.most))
    return f"{figure.label}={';'.join(parts)}".rstrip(";")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}".rstrip("0").rstrip(".")


def report(output: str, reason: str, problem: str, details: Sequence[str] = ()) -> None:
    """Print why there is no verdict: a document or a plugin's line on standard output, or text on standard error.
    output: `json`, `nagios` or text; reason: one word; problem: a sentence; details: more lines."""
    match output:
        case "json":
            error = {"reason": reason, "message": problem}
            document = {"status": "unknown", "verdict": problem, "error": error}
            print_lines(json.dumps(document, indent=2).splitlines())
        case "nagios":
            print_lines([render_line("unknown", problem)])
        case _:
            print_lines([f"UNKNOWN  {problem}", *details], sys.stderr)
