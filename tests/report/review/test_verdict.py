"""The verdict on a service, from what the other sections found."""

import pytest
from msgspec.structs import replace

from tests.report.changes import data_of, peaks_of
from tests.support.synthetic.plan import Service
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.review.recommendations import Evidence
from uwsgi_headroom.report.review.trend import review_trend
from uwsgi_headroom.report.review.users import review_users
from uwsgi_headroom.report.review.utilization import review_utilization
from uwsgi_headroom.report.review.verdict import judge_service

CALM = Service(name="calm", servers=2, peak=8.0, contention=False, weekdays=(1.0,) * 7)


@pytest.fixture(scope="module")
def calm():
    """What is known of two servers with 4 of 32 threads in service each, for which nothing is recommended."""
    peaks = peaks_of(data_of(CALM, days=8))
    return Evidence(peaks, review_utilization(peaks), review_users(peaks), review_trend(peaks), 1.0, False)


@pytest.mark.parametrize(("one_lost", "judgement"), [(None, "ok"), (1.0, "ok"), (0.99, "plan")])
def test_a_service_that_cannot_lose_a_server_needs_a_plan(calm, one_lost, judgement):
    """Though nothing else is recommended: below 1, the others cannot serve all of the load."""
    used = replace(calm.utilization, one_lost=one_lost)
    verdict = judge_service(replace(calm, utilization=used), ())
    assert verdict.judgement == judgement
    lost = "If one of its 2 servers is lost at peak, the others cannot carry its load."
    assert verdict.sentence.endswith(lost) == (judgement == "plan")


def test_a_lone_server_is_not_reproached_with_its_loss():
    """The verdict says that the service is then down, and is that of the load alone."""
    lone = replace(CALM, servers=1, peak=4.0)
    (service,) = build_review(data_of(lone, days=8)).services
    assert service.verdict.judgement == "ok"
    assert service.verdict.sentence.endswith("The service has one server: if that is lost, it is down.")


def test_a_source_that_failed_halfway_makes_the_verdict_doubtful(calm):
    """Confidence is low, and the reason is given."""
    verdict = judge_service(replace(calm, partial=True), ())
    assert (verdict.confidence, "the source failed halfway" in verdict.certainty) == ("low", True)
    assert judge_service(calm, ()).confidence == "medium"


def test_below_a_week_it_is_too_early_to_say():
    """What is bad is known to be, but a busier day may still come, so that nothing is called enough."""
    (service,) = build_review(data_of(CALM, days=3)).services
    assert service.verdict.judgement == "unknown"
    assert service.verdict.sentence.endswith("a week is needed, since another day may be busier.")
    assert service.verdict.certainty.startswith("Low: 3 days with a known peak")
    assert service.verdict.action == "Nothing now. Run this report again when a week is known."
