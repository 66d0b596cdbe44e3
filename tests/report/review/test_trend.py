"""The date in the verdict: right where the answer is known, refused with its reason where history is too short."""

import re
from datetime import date, timedelta

import pytest
from msgspec.structs import replace

from tests.report.changes import change, data_of, with_window
from tests.support.synthetic import stories
from tests.support.synthetic.plan import DAY, Service
from uwsgi_headroom.report.forecast import Forecast
from uwsgi_headroom.report.quarters import Absent, ReviewData
from uwsgi_headroom.report.render.document import day
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.review.trend import Trend

GROWING = Service(
    name="growing", servers=2, peak=52.0, contention=False, wait=0.19, growth=0.15, weekdays=(1.0,) * 7, noise=0.02
)
"""Concurrency in proportion to the load: at the end 52 of 64 threads at peak, and 15 % of that more every 28 days."""

END = date(2026, 9, 28)


@pytest.fixture(scope="module")
def two():
    """A service that grows, and one that does not and is idle."""
    idle = Service(name="idle", peak=0.1, contention=False, weekdays=(1.0,) * 7)
    return build_review(data_of(idle, GROWING, days=56))


def _threads(trend: Trend) -> Forecast | Absent:
    return next(each.forecast for each in trend.limits if each.limit == "threads")


def test_the_crossing_date_is_in_the_sentence(two):
    """By hand: peaks grow from 52/64 = 0.8125 (with the largest noise) by 0.15 of that in 28 days, so all threads are
    in use after 28 * (1 / 0.8125 - 1) / 0.15 = 43 days. Tolerance: ten days."""
    service = two.services[0]
    assert service.service == "growing"
    crossing = _threads(service.trend).crossing
    assert abs(crossing - END - timedelta(days=43)) <= timedelta(days=10)
    assert f"reached around {day(crossing)} (not before " in service.verdict.sentence
    assert service.verdict.judgement == "plan"


def test_the_limit_of_the_crossing_is_the_first_one(two):
    """Threads are 81 % full and interpreters 33 %, so threads are reached first, as the verdict says."""
    trend = two.services[0].trend
    assert trend.first == "threads"
    assert two.services[0].utilization.first == "threads"
    assert _threads(trend).direction == "growth"


def test_each_service_has_its_own_verdict(two):
    """The busy one comes first, and the idle one needs nothing."""
    assert [service.service for service in two.services] == ["growing", "idle"]
    idle = two.services[1].verdict
    assert idle.judgement == "ok"
    assert idle.action.startswith("Nothing now.")
    assert "No limit is reached within the 56 days" in idle.sentence
    assert two.answer == "growing needs a plan. idle has enough capacity."


def test_an_hour_of_history_gives_a_verdict_and_no_date(young):
    """The present peak is judged; a forecast is refused with its reason, and confidence is low."""
    service = young.services[0]
    assert service.verdict.judgement == "act"
    assert isinstance(service.trend, Absent)
    assert "a forecast needs weeks" in service.trend.reason
    assert service.verdict.confidence == "low"
    assert service.verdict.certainty.startswith("Low: 60 min of data, no complete day")


def test_ten_days_say_how_many_days_are_needed():
    """With whole days, but too few, the refusal has the number that is needed."""
    service = build_review(data_of(replace(GROWING, servers=1, peak=11.0), days=10)).services[0]
    assert all(isinstance(each.forecast, Absent) for each in service.trend.limits)
    reason = _threads(service.trend).reason
    assert re.search(r"needs \d+ days", reason)
    assert f"No date: {reason}" in service.verdict.sentence
    assert service.verdict.confidence != "high"


def test_days_with_other_threads_are_no_growth():
    """The use of fewer threads was higher, and only the days since then count."""
    still = replace(GROWING, name="still", servers=1, growth=0.0, peak=7.0)
    data = data_of(still, days=60)
    fewer = with_window(configured=8, available=8)
    changed = change(data, lambda record: fewer(record) if record.until < stories.UNTIL - 30 * DAY else record)
    trend = build_review(changed).services[0].trend
    assert isinstance(trend, Trend)
    assert trend.days_unlike_today == pytest.approx(30, abs=1)
    forecast = _threads(trend)
    assert isinstance(forecast, Forecast)
    assert len(forecast.ahead) == pytest.approx(30, abs=1)
    assert forecast.direction == "none"


def test_a_range_without_servers_says_so():
    """No data is no crash: the answer says what is missing."""
    review = build_review(ReviewData(servers=(), since=0.0, until=900.0, source="nothing"))
    assert review.judgement == "unknown"
    assert review.answer == "No verdict: the source has no server in this range."
