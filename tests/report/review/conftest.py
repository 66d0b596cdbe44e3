"""Reviews of synthetic histories, each computed once for all tests, without the predictions of section 8."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.support.synthetic import stories
from tools.support.synthetic.review_data import make_review_data
from uwsgi_headroom.report import review
from uwsgi_headroom.report.review.sections import Absent, Review

NOT_PREDICTED = "Predictions are tested by themselves: they take a second for each server."


@pytest.fixture(scope="package", autouse=True)
def no_predictions() -> Iterator[None]:
    """Leaves section 8 out, which takes a second for each server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(review, "review_what_if", lambda *_: Absent(reason=NOT_PREDICTED))
        yield


@pytest.fixture(scope="package")
def story(no_predictions: None) -> Review:
    """Six machines, 192 threads of which 83 are in service at peak, one worker of four with 43 % of the requests."""
    return review.build_review(make_review_data(stories.story()))


@pytest.fixture(scope="package")
def young(no_predictions: None) -> Review:
    """An hour of the same."""
    return review.build_review(make_review_data(stories.young()))
