"""The README says what the program does."""

from __future__ import annotations

import re

from tools.metrics_table import README
from uwsgi_headroom.arguments.commands import make_command_line


def known_flags() -> set[str]:
    """Every long flag of the command line, those of its commands included."""
    line = make_command_line()
    return {flag for parser in (line.program, *line.commands.values()) for flag in parser.options}


def test_every_flag_in_the_readme_exists() -> None:
    """The README names no flag of uwsgi-headroom that the command line does not know."""
    lines = [line for line in README.read_text().splitlines() if "uwsgi-headroom" in line]
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z._-]+", "\n".join(lines)))
    assert flags
    assert flags <= known_flags()
