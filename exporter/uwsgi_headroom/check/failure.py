"""Prints the failures of `check` in the requested format. Imports little."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from uwsgi_headroom.check.nagios_line import render_line
from uwsgi_headroom.terminal_text import print_lines


def report(output: str, reason: str, problem: str, details: Sequence[str] = ()) -> None:
    """Print why there is no verdict: a document or a plugin's line on standard output, or text on standard error.
    output: `json`, `nagios`, or anything else for text; reason: one word; problem: a sentence; details: more lines for
    a person."""
    match output:
        case "json":
            error = {"reason": reason, "message": problem}
            print(json.dumps({"status": "unknown", "verdict": problem, "error": error}, indent=2))
        case "nagios":
            print_lines([render_line("unknown", problem)])
        case _:
            print_lines([f"UNKNOWN  {problem}", *details], sys.stderr)
