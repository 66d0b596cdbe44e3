"""Generates the table of flags in `docs/tune.md` from the command-line parser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.generated_files import replace_section
from uwsgi_headroom.arguments.commands import make_command_line

FILE = Path(__file__).resolve().parents[1] / "docs" / "tune.md"


def page() -> str:
    """Returns the page with its table as it should be."""
    return replace_section(FILE.read_text(), "flags", "".join(f"{line}\n" for line in _table()))


def _table() -> Iterator[str]:
    yield "| flag | what it does |"
    yield "| --- | --- |"
    for argument in make_command_line().commands["tune"].arguments:
        flag = argument.option_strings[-1]
        if flag != "--help":
            value = f" {argument.metavar}" if argument.metavar else ""
            yield f"| `{flag}{value}` | {argument.help} |"
