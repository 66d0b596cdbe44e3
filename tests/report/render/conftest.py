"""A review of two days of a service whose names are hostile input, and of one without them."""

import pytest
from msgspec.structs import replace

from tests.support.synthetic import stories
from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.report import review
from uwsgi_headroom.report.columns import EventMark, Query
from uwsgi_headroom.report.render.html import render_html

HOSTILE = "<script>alert(1)</script></style><img src=x onerror=alert(2)>|`*_[a](javascript:b)\n# head\x1b[31m\u202e=cmd"
"""A name that is harmless nowhere: HTML, CSS, Markdown, terminal, spreadsheet."""

FORMULA = "=HYPERLINK(1)"


@pytest.fixture(scope="package")
def plain():
    """Three days of a service with two uneven servers."""
    service = replace(stories.STORY, servers=2, peak=27.7)
    return review.build_review(make_review_data(History(services=(service,), days=3, until=stories.UNTIL)))


@pytest.fixture(scope="package")
def page(plain):
    """Its HTML."""
    return render_html(plain)


@pytest.fixture(scope="package")
def hostile_page(hostile):
    """The HTML of the hostile one."""
    return render_html(hostile)


@pytest.fixture(scope="package")
def hostile():
    """Two days of a server with hostile names everywhere."""
    named = Service(name="x", peak=20.0, contention=False, backends={HOSTILE: 0.5}, routes={HOSTILE: 0.9})
    data = make_review_data(History(services=(named,), days=2, until=stories.UNTIL))
    mark = EventMark(time=data.until - 3600, kind="reload", title=HOSTILE)
    server = replace(
        data.servers[0],
        server=FORMULA + HOSTILE,
        service=HOSTILE,
        host=HOSTILE,
        events=(mark,),
        settings={HOSTILE: "info"},
    )
    queries = (Query(text=HOSTILE, answers=1, seconds=0.1),)
    return review.build_review(
        replace(data, servers=(server,), source=HOSTILE, problems=(HOSTILE,), queries=queries, partial=True)
    )
