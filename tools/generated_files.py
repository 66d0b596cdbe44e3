"""Files that are made from Python and committed: write them, or say which have drifted from what is made."""

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
    """The command line of `python3 -m MODULE`: `render` gives the text of each file by its name. The status is 1 if
    `--check` found drift and 2 for what could not be understood.
    """
    parser = argparse.ArgumentParser(
        prog=f"python3 -m {module}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
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
            print(f"{options.out / name} is not what `python3 -m {module}` makes", file=sys.stderr)
        return 1 if drifted else 0
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (options.out / name).write_text(text)
    return 0


def replace_section(text: str, name: str, section: str) -> str:
    """The text with another section between its marks `<!-- NAME -->` and `<!-- /NAME -->`. Raises ValueError if it has
    no such marks."""
    before, begin, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not end:
        raise ValueError(f"there are no marks named {name!r}")
    return f"{before}{begin}{section}{end}{after}"


def _read(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None
