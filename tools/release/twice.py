"""`make release-twice`: builds the release twice, in clones in different directories, and compares the bytes.

The second build runs some seconds later, in another time zone, with another umask and another directory for temporary
files. The exit status is 0 if each file has the same bytes, else 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tools import commands
from tools.commands import CommandError
from tools.environments import ROOT, SetupError
from tools.release.__main__ import KINDS, SUMS, build

ZONES = ("UTC", "Asia/Kathmandu")
MASKS = (0o022, 0o077)


def main(argv: Sequence[str] | None = None) -> str | None:
    """Builds twice; returns a message with the files that differ."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.release.twice", description=__doc__)
    parser.add_argument("--only", action="append", default=[], choices=KINDS)
    only: list[str] = parser.parse_args(argv).only
    with tempfile.TemporaryDirectory(prefix="headroom-twice-") as name:
        sums = []
        origin = _repository()
        try:
            for number, (zone, mask) in enumerate(zip(ZONES, MASKS, strict=True)):
                directory = Path(name) / ("first" if number == 0 else "the/second/one")
                sums.append(_build(origin, directory, zone, mask, only))
                origin = str(directory / "clone")  # the same commit, whatever is committed meanwhile
        except (SetupError, CommandError) as error:
            return f"\nmake release-twice: {error}"
    first, second = (set(text.splitlines()) for text in sums)
    if first != second:
        return "\n".join(["release-twice: these differ:", *sorted(first ^ second)])
    print(f"release-twice: {len(first)} files have the same bytes in both builds")
    return None


def _build(origin: str, directory: Path, zone: str, mask: int, only: Sequence[str]) -> str:
    """Builds in a clone below `directory`; returns the checksums."""
    temporary = directory / "temporary"
    temporary.mkdir(parents=True)
    os.environ.update(TZ=zone, TMPDIR=str(temporary))
    time.tzset()
    tempfile.tempdir = str(temporary)
    os.umask(mask)
    commands.run_command(["git", "clone", "--quiet", "--depth=1", f"file://{origin}", directory / "clone"])
    target = directory / "dist"
    build(directory / "clone", target, only)
    return (target / SUMS).read_text()


def _repository() -> str:
    """Returns the repository of this checkout, at the commit that is checked out."""
    ran = subprocess.run(["git", "rev-parse", "--show-toplevel"], cwd=ROOT, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
