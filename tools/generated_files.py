"""Writes committed files that are generated from Python, or reports those that differ from what would be generated."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from alerts.thresholds import Thresholds, changed


def write_or_check(
    module: str,
    description: str | None,
    directory: Path,
    render: Callable[[Thresholds], Mapping[str, str]],
    argv: Sequence[str] | None,
) -> int:
    """Runs the command line of `python3 -m MODULE`; `render` returns the text of each file by its name. Returns the
    exit status: 1 if `--check` found a difference, 2 for an invalid argument.
    """
    parser = argparse.ArgumentParser(
        prog=f"python3 -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    shipped = directory.relative_to(Path.cwd()) if directory.is_relative_to(Path.cwd()) else directory
    parser.add_argument("--out", type=Path, default=directory, help=f"directory to write to (default: {shipped})")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a threshold, repeatable")
    parser.add_argument("--check", action="store_true", help="write nothing; list files that differ")
    options = parser.parse_args(argv)
    try:
        made = render(changed(Thresholds(), options.set))
    except ValueError as error:
        parser.error(str(error))
    if options.check:
        drifted = [name for name, text in made.items() if _read(options.out / name) != text]
        for name in drifted:
            print(f"{options.out / name} differs from the output of `python3 -m {module}`", file=sys.stderr)
        return 1 if drifted else 0
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (options.out / name).write_text(text)
    return 0


def replace_section(text: str, name: str, section: str, comment: tuple[str, str] = ("<!--", "-->")) -> str:
    """Returns the text with a new section between the marks `<!-- NAME -->` and `<!-- /NAME -->`. Raises ValueError if
    the text has no such marks. comment: how a comment begins and ends in this language."""
    opening, closing = comment
    before, begin, rest = text.partition(f"{opening} {name} {closing}\n")
    _, end, after = rest.partition(f"{opening} /{name} {closing}")
    if not end:
        raise ValueError(f"there are no marks named {name!r}")
    return f"{before}{begin}{section}{end}{after}"


def _read(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None
