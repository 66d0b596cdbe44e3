"""`python -m alerts`: write the rule files, or with `--check` say which of the written ones have drifted.

Other thresholds, other files: `python -m alerts --set uneven_ratio=2 --out /etc/prometheus/rules`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from alerts import files
from alerts.thresholds import Thresholds, changed

RULES = Path(__file__).parent / "rules"


def main(argv: list[str] | None = None) -> int:
    """Write or check. The status is 1 if `--check` found drift and 2 for what could not be understood."""
    parser = argparse.ArgumentParser(
        prog="python -m alerts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RULES, help="directory to write to (default: alerts/rules)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a threshold, repeatable")
    parser.add_argument("--check", action="store_true", help="write nothing; list files that differ")
    asked = parser.parse_args(argv)
    try:
        thresholds = changed(Thresholds(), asked.set)
    except ValueError as error:
        parser.error(str(error))
    made = files.render(thresholds)
    if asked.check:
        drifted = [name for name, text in made.items() if _read(asked.out / name) != text]
        for name in drifted:
            print(f"{asked.out / name} is not what `python -m alerts` makes", file=sys.stderr)
        return 1 if drifted else 0
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (asked.out / name).write_text(text)
    return 0


def _read(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
