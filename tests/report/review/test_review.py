"""The verdict on a service, from what the other sections found."""

import re
from datetime import date, timedelta

import pytest
from msgspec.structs import fields, replace

from tests.report.changes import change, change_server, data_of, peaks_of, with_levels, with_window, with_workers
from tests.support.synthetic import stories
from tests.support.synthetic.plan import DAY, Service
from tests.support.synthetic.server import QUEUE
from tests.support.written_durations import check_sum, read_durations
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.report.forecast import Forecast
from uwsgi_headroom.report.quarters import Absent, ReviewData, mean_busy
from uwsgi_headroom.report.render.document import day
from uwsgi_headroom.report.render.html import render_html
from uwsgi_headroom.report.render.markdown import render_json, render_markdown
from uwsgi_headroom.report.review import ServiceReview, build_review, write_review
from uwsgi_headroom.report.review.recommendations import Evidence
from uwsgi_headroom.report.review.trend import Trend, review_trend
from uwsgi_headroom.report.review.users import Users, review_users
from uwsgi_headroom.report.review.utilization import review_utilization
from uwsgi_headroom.report.review.verdict import judge_service
from uwsgi_headroom.words.formats import factor

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


@pytest.mark.parametrize(("saved", "is_said"), [(0.0061, True), (0.00004, False)])
def test_uneven_workers_that_cost_no_time_are_not_mentioned(calm, saved, is_said):
    """Not where what they cost would be written as 0 ms."""
    balance = replace(calm.utilization.balance, cost_servers=1.1, cost_seconds=saved)
    verdict = judge_service(replace(calm, utilization=replace(calm.utilization, balance=balance)), ())
    assert ("Uneven workers cost" in verdict.sentence) == is_said


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


def _data(days: float = 3) -> ReviewData:
    return data_of(replace(stories.STORY, servers=2, peak=27.7), days=days)


def _users(data: ReviewData) -> Users:
    return review_users(peaks_of(data))


def test_what_users_wait_is_service_and_queue():
    """In the table and in the sentence of page one, in this order; every tenth request is a static file."""
    waiting = change(_data(), with_window(queue_seconds={QUEUE: 1800.0}))
    waiting = change(waiting, with_workers(lambda worker: replace(worker, static_requests=worker.requests // 10)))
    text = render_markdown(write_review(build_review(waiting)))
    rows = re.findall(r"^\| (?:over the range|at peak) .*", text, re.MULTILINE)
    assert len(rows) == 2
    for row in rows:
        service, queue, both = read_durations(row)[-3:]
        check_sum(both, [service, queue])
    sentence = re.search(r"At peak users wait .*? in service", text)
    whole, *parts = read_durations(sentence[0])
    check_sum(whole, parts)
    assert len(parts) == 2


def test_percentiles_are_those_of_all_requests():
    """Lognormal times with a known spread, whose mean changes with the load: at peak, the 95th percentile is
    exp(1.645 s - s²/2) times the mean."""
    felt = _users(_data()).at_peak
    assert felt.percentiles["p95"] / felt.mean == pytest.approx(2.01, rel=0.03)
    assert list(felt.percentiles) == ["p50", "p90", "p95", "p99"]


def test_an_objective_in_records_of_earlier_versions():
    """They have no count of misses: what was slow in service or lost has missed it."""
    now = _users(_data()).objective
    earlier = change(_data(), with_window(judged=None, missed_slow=None, missed_waited=None, missed_lost=None))
    before = _users(earlier).objective
    assert before.bad == pytest.approx(now.bad, rel=0.05)
    assert before.requests == now.requests
    lost = change(earlier, with_workers(lambda worker: replace(worker, lost=2)))
    records = sum(len(server.records) for server in lost.servers)
    assert _users(lost).objective.bad * (before.requests + 8 * records) == pytest.approx(
        before.bad * before.requests + 8 * records, rel=1e-6
    )


def test_drops_count_as_refused_while_an_own_queue_is_full():
    """The kernel counts those of all listeners of a network namespace together; the exporter may know better."""
    dropped = change(_data(1), with_window(refused=None, overflows=3))
    assert _users(dropped).refused == 0
    full = {QUEUE: 5.0}
    assert _users(change(dropped, with_window(refused=None, overflows=3, queue_full_seconds=full))).refused == 3 * 192
    assert _users(change(dropped, with_window(refused=1, overflows=3, queue_full_seconds=full))).refused == 192
    assert _users(change(dropped, with_window(refused=None, overflows=None))).refused is None


def test_maps_of_the_week_are_local():
    """23:00 to 24:00 UTC on Sunday is 01:00 to 02:00 on Monday in Berlin in summer; hours without data are unknown."""
    data = _data(3)
    last = data.until - 3600
    quiet = change(data, lambda record: with_window(available=8)(record) if record.until > last else record)
    here = _users(replace(quiet, time_zone="Europe/Berlin"))
    utc = _users(quiet)
    assert here.load[0][1] == utc.load[6][23]
    assert utc.load[6][23] > 2 * utc.load[6][22]
    assert utc.load[2][0] is None
    assert utc.response_time[6][14] == pytest.approx(0.224, abs=0.01)


def test_83_of_192_threads_are_in_service(story):
    """Those of all six machines together, in the quarter hour that counts."""
    used = story.services[0].utilization
    assert used.in_service == pytest.approx(83.0, abs=0.01)
    assert used.available == 192


def test_the_hottest_interpreters_are_the_first_limit(story):
    """The worker with 43 % of the requests is named, not the threads, of which more than half are free."""
    used = story.services[0].utilization
    assert used.first == "hottest_interpreter"
    assert " Over 85 % of that limit is in use. " in story.services[0].verdict.sentence
    hottest = {server.balance.hottest for server in used.servers}
    assert hottest == {1}
    assert used.servers[0].workers[0].share == pytest.approx(0.43, abs=0.001)


def test_the_cost_is_in_milliseconds_and_in_servers(story):
    """By hand: at peak a machine serves r requests a second, with 40 ms of CPU and 179 ms of waiting each, and an
    M/D/1 queue for the interpreter. Even workers would have the response time of the three calm ones."""
    balance = story.services[0].utilization.balance
    rate = story.services[0].utilization.servers[0].flow.throughput

    def response_time(share: float) -> float:
        load = share * rate * 0.040
        return 0.040 + 0.179 + 0.040 * load / (2 * (1 - load))

    mean = 0.43 * response_time(0.43) + 0.57 * response_time(0.19)
    assert balance.cost_seconds == pytest.approx(mean - response_time(0.19), rel=0.01)
    # Full at 1/0.43 of an interpreter's load; even workers until the 3.7 CPUs that others leave are full.
    hot, even = 1 / (0.43 * rate * 0.040), 3.7 / (rate * 0.040)
    assert balance.cost_servers == pytest.approx(6 * (1 - hot / even), rel=0.01)
    cost = "Uneven workers cost 46 ms of each response and the capacity of 2.2 of 6 servers."
    assert cost in story.services[0].verdict.sentence
    assert balance.summary.startswith("On shop-1, worker 1 takes 43 % of the requests (even would be 25 %), with its ")


def test_it_advises_more_processes_with_fewer_threads(story):
    """The advice is that of the finding in `check`, and it is urgent, as the limit is reached."""
    first = story.services[0].recommendations[0]
    assert (first.code, first.judgement) == ("unevenness_hurts", "act")
    assert first.action.startswith("Use more processes and fewer threads, such as 8x4 instead of 4x8")
    assert "46 ms" in first.evidence
    assert len(first.servers) == 6
    assert story.answer == "shop needs action now."


def test_a_limit_is_missed_only_with_a_server_lost(story):
    """With one machine of six lost the others have 6/5 of the load, which is more than one interpreter takes."""
    used = story.services[0].utilization
    assert used.one_lost == pytest.approx(used.headroom * 5 / 6, rel=1e-6)
    assert used.one_lost < 1 < used.headroom


def test_the_first_page_has_the_lines_of_check(story):
    """Those of the server with the least headroom, as `check` prints them of a window."""
    lines = {line.code: line.text for line in story.services[0].lines}
    assert lines["server"] == story.services[0].utilization.server
    assert list(lines) == ["server", "users_wait", "served", "time", "outside", "headroom"]
    assert lines["headroom"].startswith(factor(story.services[0].utilization.headroom))


PLAIN = Service(name="plain", servers=2, peak=16.0, contention=False, backends={}, threshold=None)


@pytest.fixture(scope="module")
def data():
    """Two days of two servers without backends, routes and an objective."""
    return data_of(PLAIN, days=2)


def _service(data: ReviewData) -> ServiceReview:
    review = build_review(data)
    document = write_review(review)
    assert render_json(review)
    assert render_html(document)
    assert "nan" not in render_markdown(document)
    return review.services[0]


def test_an_objective_that_is_not_set_is_named(data):
    """With the option that sets one."""
    assert "`--slo`" in _service(data).users.objective.reason


def test_without_response_times_by_bound_there_are_no_percentiles(data):
    """The mean is still known, from running time."""
    service = _service(change(data, lambda record: replace(record, response_times=None)))
    assert service.users.whole.percentiles == {}
    assert service.users.whole.mean == pytest.approx(PLAIN.cpu + PLAIN.wait, rel=1e-3)


def test_a_figure_that_is_unknown_for_a_while_hides_no_other_time(data):
    """The mean response time, and the wait in the queue, of the quarter hours in which they are known."""
    hidden = with_workers(lambda worker: replace(worker, running_time=None))
    part = change(data, lambda record: hidden(record) if record.until < data.since + 86400 else record)
    assert _service(part).users.whole.mean == pytest.approx(PLAIN.cpu + PLAIN.wait, rel=1e-3)
    gone = with_window(queue_seconds={}, queue_full_seconds={})
    part = change(data, lambda record: gone(record) if record.until < data.since + 86400 else record)
    assert _service(part).users.whole.queue_wait is not None


OF_A_WINDOW = {"overflows", "refused", "judged", "missed_slow", "configured", "available", "cpu", "waits"}
OF_A_WORKER = {"running_time", "busy_seconds", "cpu_seconds", "interpreter_lock_seconds", "resident_bytes"}
OF_LEVELS = {"cpus", "memory_available", "memory_per_worker", "slo", "thunder_lock"}


@pytest.mark.parametrize("name", sorted(OF_A_WINDOW | OF_A_WORKER | OF_LEVELS | {"queues"}))
def test_any_figure_may_be_unknown(data, name):
    """Each in turn, on all servers: there is a review, without nan in any form."""
    edit = with_window(queue_seconds={}, queue_full_seconds={})
    if name in OF_LEVELS:
        edit = with_levels(**{name: None})
    elif name in OF_A_WORKER:
        edit = with_workers(lambda worker: replace(worker, **{name: None}))
    elif name in OF_A_WINDOW:
        edit = with_window(**{name: None})
    assert _service(change(data, edit)).verdict.sentence


def test_every_part_of_a_record_is_tried():
    """A figure that may be unknown is in one of the lists above, unless a review does not use it."""
    record = data_of(PLAIN, days=1 / 24).servers[0].records[0]
    assert {each.name for each in fields(record.window)} >= OF_A_WINDOW
    assert {each.name for each in fields(record.window.workers[0])} >= OF_A_WORKER
    assert {each.name for each in fields(record.levels)} >= OF_LEVELS


def test_a_server_that_came_later_and_one_without_data(data):
    """The service is judged from what is there."""
    first, second = data.servers
    begin = data.since + 100 * 900
    later = change_server(second, lambda record: record if record.until > begin else None)
    nothing = replace(change_server(second, lambda _: None), server="nothing")
    review = build_review(replace(data, servers=(first, later, nothing)))
    used = review.services[0].utilization
    assert [server.server for server in used.servers] == [first.server, later.server]
    both = [
        sum_if_all_known([mean_busy(first.quarters[end]), mean_busy(later.quarters[end])]) for end in later.quarters
    ]
    assert used.in_service == pytest.approx(max(both))
    assert [quality.covered for quality in review.quality] == pytest.approx([1.0, 92 / 192, 0.0])


def test_another_limit_than_resources_is_no_headroom(data):
    """Where calls hold the loops, a review promises no growth until threads run out."""
    held = _service(change(data, with_levels(limited_by="loop_held")))
    assert held.utilization.headroom is None
    assert "Headroom at peak is not known" in held.verdict.sentence
    assert "`loop_held`" in held.verdict.sentence
    assert "threads run out" not in held.verdict.sentence


def test_a_section_without_data_says_why(data):
    """Instead of its figures."""
    hour = data_of(PLAIN, days=1 / 24)
    service = _service(hour)
    assert isinstance(service.trend, Absent)
    assert isinstance(service.users.load, Absent)
    assert not isinstance(_service(data).users.load, Absent)


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


def test_work_outside_of_the_interpreter_lock_is_no_use_of_interpreters():
    """Workers that compute in numpy saturate no interpreter, and have no trend of it from quiet days alone."""
    service = Service(name="shop", workers=4, threads=8, shares=(0.25,) * 4, peak=14.0, cpu=0.02, wait=0.18, cpus=32.0)
    outside = with_workers(lambda each: replace(each, cpu_seconds=each.cpu_seconds * 4.5, interpreter_lock_seconds=0.0))
    review = build_review(change(data_of(service, days=8), outside)).services[0]
    assert review.verdict.judgement == "ok"
    assert {each.limit for each in review.trend.limits} == {"threads", "cpu"}


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
