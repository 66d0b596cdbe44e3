"""What is not known is said, and the rest is as before."""

import pytest
from msgspec.structs import fields, replace

from tests.report.changes import change, change_server, data_of, with_levels, with_window, with_workers
from tests.support.synthetic.plan import Service
from uwsgi_headroom.history.counts import sum_if_all_known
from uwsgi_headroom.report.quarters import Absent, ReviewData, mean_busy
from uwsgi_headroom.report.render.html import render_html
from uwsgi_headroom.report.render.markdown import render_json, render_markdown
from uwsgi_headroom.report.review import ServiceReview, build_review, write_review

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
