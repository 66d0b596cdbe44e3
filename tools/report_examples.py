"""Writes the examples of the capacity review: `.venv/bin/python3 -m tools.report_examples`.

The synthetic quarter is always written: three services of a made-up shop, with known answers. With `--history FILE`,
the history file of a demo that ran for an hour, its last hour is written, too:

    make demo
    .venv/bin/python3 -m tools.report_examples --history FILE
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tools.support.synthetic import stories
from tools.support.synthetic.plan import History, Service
from tools.support.synthetic.review_data import make_review_data
from uwsgi_headroom.report.columns import ReviewData
from uwsgi_headroom.report.render import Format, write_review
from uwsgi_headroom.report.review import build_review

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
FORMS: tuple[Format, ...] = ("html", "md")
LARGEST = 1_000_000  # bytes of all examples together

CHECKOUT = Service(name="checkout", servers=2, peak=45.0, contention=False, wait=0.19, growth=0.08, weekdays=(1.0,) * 7)
"""A service that grows steadily and has its threads as the first limit."""


def synthetic_quarter() -> ReviewData:
    """The data of the synthetic example, which says that it is one."""
    quarter = stories.quarter()
    history = History(services=(*quarter.services, CHECKOUT), days=quarter.days, until=quarter.until, zone=quarter.zone)
    label = "SYNTHETIC EXAMPLE: these services do not exist, and their figures were made up by a program."
    return replace(make_review_data(history), source="tools/report_examples.py, seed 1", problems=(label,))


def write_synthetic(directory: Path) -> list[Path]:
    """Write the synthetic quarter in all forms; returns the files."""
    review = build_review(synthetic_quarter())
    files = [directory / f"synthetic-quarter.{form}" for form in FORMS]
    for file, form in zip(files, FORMS, strict=True):
        write_review(review, file, form)
    return files


def write_demo_hour(history: Path, until: str | None, directory: Path) -> list[Path]:
    """Write an hour of a demo in all forms, by the command that users have; returns the files. until: its end, None for
    that of the records."""
    files = [directory / f"demo-hour.{form}" for form in FORMS]
    for file in files:
        command = [sys.executable, "-m", "uwsgi_headroom", "report", "--history", str(history), "--range", "1h"]
        command += ["--until", until] if until else []
        subprocess.run([*command, "--out", str(file)], check=True)
    return files


def main() -> int:
    """Write the examples, and fail if they are too large to commit."""
    parser = argparse.ArgumentParser(
        prog=".venv/bin/python3 -m tools.report_examples",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--history", type=Path, metavar="FILE", help="history file of a demo that ran for an hour")
    parser.add_argument("--until", metavar="TIME", help="end of that hour (default: of the last quarter of an hour)")
    parser.add_argument("--out", type=Path, default=EXAMPLES, help="directory to write to (default: docs/examples)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    written = write_synthetic(options.out)
    if options.history:
        written += write_demo_hour(options.history, options.until, options.out)
    for file in written:
        print(f"{file} ({file.stat().st_size:,} bytes)")
    size = sum(file.stat().st_size for file in options.out.iterdir() if file.suffix.removeprefix(".") in FORMS)
    if size > LARGEST:
        sys.exit(f"the examples have {size:,} bytes together, more than {LARGEST:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
