"""Makes the example in docs/examples: a capacity review of a service that a program made up.

`.venv/bin/python3 -m tools.report_example review.html` writes a larger one, with three such services and known answers,
in any form of `uwsgi-headroom report`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from msgspec.structs import replace

from tests.support.synthetic import stories
from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_review_data
from tools.environments import ROOT
from uwsgi_headroom.report.command import render
from uwsgi_headroom.report.quarters import ReviewData
from uwsgi_headroom.report.request import FORMATS
from uwsgi_headroom.report.review import build_review

FILE = ROOT / "docs" / "examples" / "capacity-review.md"

CHECKOUT = Service(name="checkout", servers=2, peak=45.0, contention=False, wait=0.19, growth=0.16, weekdays=(1.0,) * 7)
"""A service that grows steadily and has its threads as the first limit."""

_LABEL = "SYNTHETIC EXAMPLE: these services do not exist, and their figures were made up by a program."


_BY_HOUR = re.compile(r"^\|  \| 0 \| 1 \|(?:.*\n)+?\n(.*)\n", re.MULTILINE)
"""A table by weekday and hour, and the line below, which says what it shows."""


def make_example() -> str:
    """The review as Markdown. Of the tables by weekday and hour, only what they show is left."""
    return _BY_HOUR.sub(r"(A table of 7 x 24 values.) \1\n", render(build_review(_quarter(CHECKOUT)), "md").decode())


def _quarter(*services: Service) -> ReviewData:
    """The data of a quarter of a year with these services, which says that it is made up."""
    quarter = stories.quarter()
    data = make_review_data(History(services=services, days=quarter.days, until=quarter.until, zone=quarter.zone))
    return replace(data, source="tools/report_example.py, seed 1", problems=(_LABEL,))


def main(name: str) -> int:
    """Writes the review of three services: one needs action because its workers are uneven, one will run out of
    threads, one has enough capacity."""
    form = next((form for form in FORMATS if name.endswith(f".{form}")), None)
    if form is None:
        print(f"{name}: a review is written as one of {', '.join(FORMATS)}", file=sys.stderr)
        return 2
    Path(name).write_bytes(render(build_review(_quarter(*stories.quarter().services, CHECKOUT)), form))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
