"""Prints the failures of `check` in the requested format. Imports little."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from uwsgi_headroom.arguments.parser import Parser, UsageError
from uwsgi_headroom.check.nagios_line import render_line
from uwsgi_headroom.terminal_text import print_lines


def report(arguments: Sequence[str], reason: str, problem: str, details: Sequence[str] = ()) -> None:
    """Print why there is no verdict: a document or a plugin's line on standard output, or text on standard error.
    arguments: of the command line, valid or not; reason: one word; problem: a sentence; details: more lines for a
    person."""
    match _find_format(arguments):
        case "json":
            error = {"reason": reason, "message": problem}
            print(json.dumps({"status": "unknown", "verdict": problem, "error": error}, indent=2))
        case "nagios":
            print_lines([render_line("unknown", problem)])
        case _:
            print_lines([f"UNKNOWN  {problem}", *details], sys.stderr)


def _find_format(arguments: Sequence[str]) -> str:
    """Find the format that these arguments request, even if others of them are wrong."""
    parser = Parser(add_help=False)
    parser.add_argument("--format", default="text")
    try:
        found: argparse.Namespace = parser.parse_known_args(arguments)[0]
    except UsageError:  # --format is the last argument, without a value
        return "text"
    return str(found.format)
