"""The README says what the program does."""

from __future__ import annotations

import argparse
import re

from tools.metrics_table import README
from uwsgi_headroom import cli


def flags_of(parser: argparse.ArgumentParser) -> set[str]:
    """Every long flag of a command line, those of its commands included."""
    flags: set[str] = set()
    for action in parser._actions:
        flags.update(flag for flag in action.option_strings if flag.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            flags.update(*(flags_of(command) for command in action.choices.values()))
    return flags


def test_every_flag_in_the_readme_exists() -> None:
    """The README names no flag of uwsgi-headroom that the command line does not know."""
    lines = [line for line in README.read_text().splitlines() if "uwsgi-headroom" in line]
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z._-]+", "\n".join(lines)))
    assert flags
    assert flags <= flags_of(cli._parser())
