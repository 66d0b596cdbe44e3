"""The verdict on a service, from what the other sections found."""

from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from tests.support.synthetic import stories
from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.review.sections import Review, Verdict
from uwsgi_headroom.report.review.verdict import Facts, judge

CALM = Service(name="calm", servers=2, peak=8.0, contention=False, weekdays=(1.0,) * 7)


@pytest.fixture(scope="module")
def calm():
    """Two servers with 4 of 32 threads in service each, for which nothing is recommended."""
    return build_review(make_review_data(History(services=(CALM,), days=8, until=stories.UNTIL)))


def _judge(calm: Review, one_lost: float | None) -> Verdict:
    """The verdict if the loss of the worst server would leave this headroom on the others."""
    (service,) = calm.services
    used = replace(service.utilization, one_lost=one_lost)
    return judge(
        Facts("calm", used, service.balance, service.trend, (), calm.quality, False, ZoneInfo("UTC"), service.users)
    )


@pytest.mark.parametrize(
    ("one_lost", "judgement", "said"),
    [
        (None, "ok", ""),
        (1.0, "ok", ""),
        (0.99, "plan", " cannot carry its load."),
    ],
)
def test_a_service_that_cannot_lose_a_server_needs_a_plan(calm, one_lost, judgement, said):
    """Though nothing else is recommended: below 1, the others cannot serve all of the load."""
    verdict = _judge(calm, one_lost)
    assert verdict.judgement == judgement
    assert ("is lost at peak" in verdict.problem) == bool(said)
    if said:
        assert verdict.problem.endswith(f"If one of its 2 servers is lost at peak, the others{said}")


def test_a_lone_server_is_not_reproached_with_its_loss(calm):
    """The verdict says that the service is then down, and is that of the load alone."""
    (service,) = calm.services
    used = replace(service.utilization, lone_server=True, one_lost=None)
    verdict = judge(
        Facts("calm", used, service.balance, service.trend, (), calm.quality, False, ZoneInfo("UTC"), service.users)
    )
    assert verdict.judgement == "ok"
    assert verdict.problem.endswith("It has one server: if that is lost, the service is down.")


def test_below_a_week_it_is_too_early_to_say():
    """What is bad is known to be, but a busier day may still come, so that nothing is called enough."""
    (service,) = build_review(make_review_data(History(services=(CALM,), days=3, until=stories.UNTIL))).services
    assert service.verdict.judgement == "unknown"
    assert service.verdict.problem.startswith("Too early to say: 3 days with a known peak, and a week is needed, ")
    assert service.verdict.sentence.endswith("; too early to say more.")
    assert service.verdict.action == "Nothing now. Run this report again when a week is known."
