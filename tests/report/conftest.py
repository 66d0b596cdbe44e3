"""Reviews of synthetic histories, each computed once: plain ones, and one whose names are hostile input."""

import pytest
from msgspec.structs import replace

from tests.report.changes import change, data_of
from tests.support.synthetic import stories
from tests.support.synthetic.plan import Service
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.report import review
from uwsgi_headroom.report.render.html import render_html
from uwsgi_headroom.report.review import build_review, write_review
from uwsgi_headroom.store.record import Record


@pytest.fixture(scope="package")
def story():
    """Six machines, 192 threads of which 83 are in service at peak, one worker of four with 43 % of the requests."""
    return review.build_review(make_review_data(stories.story()))


@pytest.fixture(scope="package")
def young():
    """An hour of the same."""
    return review.build_review(make_review_data(stories.young()))


HOSTILE = (
    "<script>alert(1)</script></style><img src=x onerror=alert(2)>|```<i>`*_[a](javascript:b)\n# head\x1b[31m\u202e=c"
)
"""A name that is harmless nowhere: HTML, CSS, Markdown, terminal."""


@pytest.fixture(scope="package")
def plain():
    """Three days of a service with two uneven servers."""
    return build_review(data_of(replace(stories.STORY, servers=2, peak=27.7), days=3))


@pytest.fixture(scope="package")
def page(plain):
    """Its HTML."""
    return render_html(write_review(plain))


@pytest.fixture(scope="package")
def hostile_page(hostile):
    """The HTML of the hostile one."""
    return render_html(write_review(hostile))


def _rename(record: Record) -> Record:
    """A queue with a hostile name that is full."""
    queues = {HOSTILE: 900.0}
    return replace(record, window=replace(record.window, queue_seconds=queues, queue_full_seconds=queues))


@pytest.fixture(scope="package")
def hostile():
    """Two days of a server with hostile names everywhere."""
    named = Service(name="x", peak=30.0, contention=False, backends={HOSTILE: 0.9}, routes={HOSTILE: 0.9})
    data = change(data_of(named, days=2), _rename)
    server = replace(data.servers[0], server=HOSTILE, service=HOSTILE, host=HOSTILE)
    return build_review(replace(data, servers=(server,), source=HOSTILE, problems=(HOSTILE,), partial=True))
