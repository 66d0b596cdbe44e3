"""What the documents advise about uWSGI's stats is what `discover` proposes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from uwsgi_headroom.discover.steps import list_options

ROOT = Path(__file__).resolve().parents[2]
ADVICE = ("README.md", "SECURITY.md", "docs", "deploy", "alerts")
EXPLAINS = {"docs/turn-on-stats.md", "docs/security.md", "docs/settings.md"}
"""The pages that say what `chmod-socket` does."""


def documents() -> list[str]:
    """Every tracked file that tells people what to do."""
    listed = subprocess.run(["git", "ls-files", "-z", *ADVICE], cwd=ROOT, capture_output=True, text=True, check=True)
    endings = (".md", ".yml", ".yaml", ".service", ".txt", ".Debian")
    return [name for name in listed.stdout.split("\0") if name.endswith(endings) and (ROOT / name).is_file()]


@pytest.mark.parametrize("name", documents())
def test_stats_lines_are_those_that_were_tried(name: str) -> None:
    """A `stats` line stands within its guard, and no page advises `chmod-socket` or an address that all can read."""
    lines = [line.strip() for line in (ROOT / name).read_text(errors="replace").splitlines()]
    assert name in EXPLAINS or not [line for line in lines if "chmod-socket" in line]
    for number, line in enumerate(lines):
        if match := re.fullmatch(r"stats = (/\S+|DIRECTORY)/\w+", line):
            expected = [f"{key} = {value}".rstrip() for key, value in list_options(Path(match[1]))]
            assert lines[number - 1 : number + 3] == expected
        else:
            assert not re.fullmatch(r"stats = \S+", line), line
