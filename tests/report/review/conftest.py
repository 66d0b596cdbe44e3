"""Reviews of synthetic histories, each computed once for all tests."""

import pytest

from tests.support.synthetic import stories
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.report import review


@pytest.fixture(scope="package")
def story():
    """Six machines, 192 threads of which 83 are in service at peak, one worker of four with 43 % of the requests."""
    return review.build_review(make_review_data(stories.story()))


@pytest.fixture(scope="package")
def young():
    """An hour of the same."""
    return review.build_review(make_review_data(stories.young()))
