"""Makes the example in docs/examples: a capacity review of a service that a program made up."""

from msgspec.structs import replace

from tests.support.synthetic import stories
from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_review_data
from tools.environments import ROOT
from uwsgi_headroom.report.command import render
from uwsgi_headroom.report.review import build_review

FILE = ROOT / "docs" / "examples" / "capacity-review.md"

CHECKOUT = Service(name="checkout", servers=2, peak=45.0, contention=False, wait=0.19, growth=0.16, weekdays=(1.0,) * 7)
"""A service that grows steadily and has its threads as the first limit."""

_LABEL = "SYNTHETIC EXAMPLE: these services do not exist, and their figures were made up by a program."


def make_example() -> str:
    """The review of a quarter of a year of that service, which says that it is made up."""
    quarter = stories.quarter()
    data = make_review_data(History(services=(CHECKOUT,), days=quarter.days, until=quarter.until, zone=quarter.zone))
    labelled = replace(data, source="tools/report_example.py, seed 1", problems=(_LABEL,))
    return render(build_review(labelled), "md").decode()
