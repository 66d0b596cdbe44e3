"""The date in the verdict: right where the answer is known, refused with its reason where history is too short."""

import re
from datetime import datetime, timezone

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.synthetic import stories
from tests.support.synthetic.plan import DAY, History, Service
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.report.columns import ReviewData
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.review.sections import Absent, LimitForecast, Trend

GROWING = Service(
    name="growing", servers=2, peak=52.0, contention=False, wait=0.19, growth=0.15, weekdays=(1.0,) * 7, noise=0.02
)
"""Concurrency in proportion to the load: at the end 52 of 64 threads at peak, and 15 % of that more every 28 days."""


@pytest.fixture(scope="module")
def two():
    """A service that grows, and one that does not and is idle."""
    idle = Service(name="idle", peak=0.1, contention=False, weekdays=(1.0,) * 7)
    return build_review(make_review_data(History(services=(idle, GROWING), days=56, until=stories.UNTIL)))


def test_the_crossing_date_is_in_the_sentence(two):
    """By hand: peaks grow from 52/64 = 0.8125 (with the largest noise) by 0.15 of that in 28 days, so all threads are
    in use after 28 * (1 / 0.8125 - 1) / 0.15 = 43 days. Tolerance: ten days."""
    service = two.services[0]
    assert service.service == "growing"
    found = re.search(r"that limit is reached around (\d+ \w{3} \d{4})", service.verdict.sentence)
    assert found, service.verdict.sentence
    day = datetime.strptime(found[1], "%d %b %Y").replace(tzinfo=timezone.utc).timestamp()
    assert (day - stories.UNTIL) / DAY == pytest.approx(43, abs=10)
    assert service.verdict.judgement == "plan"
    assert service.verdict.when.startswith(f"Around {found[1]} (not before ")
    assert "the limit is then reached (threads run out)" in service.verdict.when


def test_the_limit_of_the_crossing_is_the_first_one(two):
    """Threads are 81 % full and interpreters 33 %, so threads are reached first, as the verdict says."""
    trend = two.services[0].trend
    assert trend.first == "threads"
    assert two.services[0].utilization.first == "threads"
    threads = next(each.forecast for each in trend.limits if each.limit == "threads")
    assert isinstance(threads, LimitForecast)
    assert threads.direction == "growth"


def test_each_service_has_its_own_verdict(two):
    """The busy one comes first, and the idle one needs nothing."""
    assert [service.service for service in two.services] == ["growing", "idle"]
    idle = two.services[1].verdict
    assert idle.judgement == "ok"
    assert idle.sentence.endswith("nothing to do.")
    assert "no limit is reached within" in idle.sentence
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
    history = History(services=(replace(GROWING, servers=1, peak=11.0),), days=10, until=stories.UNTIL)
    service = build_review(make_review_data(history)).services[0]
    refusals = {each.limit: each.forecast for each in service.trend.limits}
    assert all(isinstance(each, Absent) for each in refusals.values())
    assert re.search(r"needs \d+ days", refusals["threads"].reason)
    assert refusals["threads"].reason in service.verdict.when
    assert "no date can be given yet" in service.verdict.sentence
    assert service.verdict.confidence != "high"


def test_days_with_other_threads_are_no_growth():
    """The use of fewer threads was higher, and only the days since then count."""
    still = replace(GROWING, name="still", servers=1, growth=0.0, peak=7.0)
    data = make_review_data(History(services=(still,), days=60, until=stories.UNTIL))
    (server,) = data.servers
    fewer = np.where(server.time < stories.UNTIL - 30 * DAY, 8.0, server.configured)
    service = build_review(replace(data, servers=(replace(server, configured=fewer, available=fewer),))).services[0]
    assert isinstance(service.trend, Trend)
    assert service.trend.days_unlike_today == pytest.approx(30, abs=1)
    forecast = next(each.forecast for each in service.trend.limits if each.limit == "threads")
    assert isinstance(forecast, LimitForecast)
    assert forecast.horizon_days == pytest.approx(30, abs=1)
    assert forecast.direction == "none"


def test_a_range_without_servers_says_so():
    """No data is no crash: the answer says what is missing."""
    review = build_review(ReviewData(servers=(), since=0.0, until=900.0, source="nothing"))
    assert review.judgement == "unknown"
    assert review.answer == "No verdict: the source has no server in this range."
