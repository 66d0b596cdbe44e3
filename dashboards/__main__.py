"""`python3 -m dashboards`: writes the dashboards, or with `--check` lists those that differ from the generated ones."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dashboards import files

OUT = Path(__file__).parent / "out"


def main(argv: list[str] | None = None) -> int:
    """Writes or checks the dashboards. Returns the exit status: 1 if `--check` found a difference."""
    parser = argparse.ArgumentParser(prog="python3 -m dashboards", description=__doc__, allow_abbrev=False)
    parser.add_argument("--out", type=Path, default=OUT, help="directory to write to (default: dashboards/out)")
    parser.add_argument("--check", action="store_true", help="write nothing; list files that differ")
    options = parser.parse_args(argv)
    made = {options.out / name: text for name, text in files.render().items()}
    if options.check:
        drifted = [path for path, text in made.items() if not path.is_file() or path.read_text() != text]
        for path in drifted:
            print(f"{path} differs from the output of `python3 -m dashboards`", file=sys.stderr)
        return 1 if drifted else 0
    options.out.mkdir(parents=True, exist_ok=True)
    for path, text in made.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
