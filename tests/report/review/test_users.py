"""What users felt: sums add up, records of earlier versions are read, and only own drops count."""

import re

import pytest
from msgspec.structs import replace

from tests.report.changes import change, data_of, peaks_of, with_window, with_workers
from tests.support.synthetic import stories
from tests.support.synthetic.server import QUEUE
from tests.support.written_durations import check_sum, read_durations
from uwsgi_headroom.report.quarters import ReviewData
from uwsgi_headroom.report.render.markdown import render_markdown
from uwsgi_headroom.report.review import build_review, write_review
from uwsgi_headroom.report.review.users import Users, review_users


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
