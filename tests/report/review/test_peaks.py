"""The busiest quarter hours: which one counts, and that it is judged as `check` judges."""

import pytest
from msgspec.structs import replace

from tests.report.changes import (
    at_places,
    change,
    change_server,
    data_of,
    peaks_of,
    scaled_busy,
    with_levels,
    with_window,
    with_workers,
)
from tests.support import windows
from tests.support.synthetic import stories
from tests.support.synthetic.plan import Service
from tests.support.synthetic.server import QUEUE
from uwsgi_headroom.analysis.balance import compute_balance, compute_workers
from uwsgi_headroom.analysis.capacity import CpuShares, ServerLoad, compute_headroom
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.history.response_times.bins import share_bins
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.report.quarters import ReviewData, judge, mean_busy
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.review.utilization import Utilization
from uwsgi_headroom.store.record import Record

PLAIN = Service(name="plain", peak=8.0, contention=False, weekdays=(1.0,) * 7, noise=0.01)


def _data(service: Service = PLAIN, days: float = 8) -> ReviewData:
    return data_of(service, days=days)


def _busiest(data: ReviewData) -> Record:
    """The quarter hour of the first server with most threads in service."""
    return max(data.servers[0].records, key=mean_busy)


def _used(data: ReviewData) -> Utilization:
    return build_review(data).services[0].utilization


def test_a_quarter_hour_is_judged_as_check_would():
    """A window built by hand from the story's rates gives the same headroom, balance and findings."""
    record = _busiest(_data(replace(stories.STORY, servers=1, peak=13.8), days=1))
    figures = judge([record])
    workers = [
        windows.worker(
            each.worker_id,
            each.requests,
            each=each.running_time / each.requests,
            cpu=each.cpu_seconds,
            busy=each.busy_seconds,
            lock=each.interpreter_lock_seconds,
        )
        for each in record.window.workers
    ]
    window = windows.window(900.0, *workers)
    workers, flow = compute_workers(window), compute_flow(window)
    balance = compute_balance(window, workers)
    cpu = record.window.cpu
    shares = CpuShares(cpu.own_seconds / 900, cpu.idle_seconds / 900, 0.3)
    expected = compute_headroom(ServerLoad(flow=flow, workers=workers, threads=32, cpus=4.0, cpu=shares))
    assert figures.headroom.first == expected.first == "hottest_interpreter"
    assert figures.headroom.by_limit == pytest.approx(expected.by_limit, rel=1e-3)
    assert figures.balance.hot_ratio == pytest.approx(balance.hot_ratio, rel=1e-3)
    assert figures.balance.cost == pytest.approx(balance.cost, rel=1e-2)
    assert figures.flow.observed == pytest.approx(mean_busy(record))
    assert "unevenness_hurts" in [finding.code for finding in collect_findings(figures)]


def test_the_busiest_of_all_days_counts():
    """Without an incident, it is the quarter hour with most threads in service in the whole range."""
    data = _data()
    peaks = peaks_of(data)
    assert peaks.exception is None
    assert peaks.daily.peaks[peaks.counts] == mean_busy(_busiest(data))


def test_an_incident_does_not_count_and_is_reported():
    """A stuck backend fills every thread for one quarter hour: the verdict is about load, and the report says when."""
    data = _data()
    end = _busiest(data).until
    used = _used(change(data, lambda record: scaled_busy(4.0)(record) if record.until == end else record))
    assert used.exception == (end, pytest.approx(32.0))
    assert used.in_service < 9.0


def test_a_peak_before_more_threads_were_added_does_not_count():
    """The server had 16 threads in the first half, and has 32 now: headroom is that of the present setting."""
    data = _data()
    first = range(4 * 96)
    busier = change(data, at_places(data, first, scaled_busy(1.2)))
    used = _used(change(busier, at_places(data, first, with_window(configured=16, available=16))))
    assert used.until > data.since + 4 * 86400
    assert used.available == 32


def test_with_one_server_lost_the_others_take_its_load_in_proportion():
    """Weights 50/25/25: without the large one, the small ones have twice their load, 12 of 32 threads; without a small
    one, the large one has 4/3 of its 12 threads, which is worse."""
    used = _used(_data(replace(PLAIN, name="three", servers=3, weights=(0.5, 0.25, 0.25), peak=24.0), days=3))
    assert used.lost_server in ("three-2", "three-3")
    assert [server.flow.observed for server in used.servers] == pytest.approx([12.0, 6.0, 6.0])
    threads = next(use for use in used.limits if use.limit == "threads")
    assert threads.one_lost == pytest.approx(12 / 32 * 4 / 3, rel=1e-3)


def test_requests_that_wait_beside_free_threads_are_no_use_of_zero():
    """What is used of the limits says nothing then. It is not known, rather than low in the forecast."""
    held_up = change(_data(days=3), with_window(queue_seconds={QUEUE: 3600.0}, idle_queue_seconds=270.0))
    assert set(peaks_of(held_up).utilization("threads")) == {None}


def _without_cpu(data: ReviewData) -> ReviewData:
    hidden = change(change(data, with_window(cpu=None)), with_levels(cpus=None))
    return change(hidden, with_workers(lambda worker: replace(worker, cpu_seconds=None)))


def test_unknown_cpu_makes_headroom_an_upper_bound():
    """Without CPU times, threads are the only limit, and the verdict says `at most`."""
    service = build_review(_without_cpu(_data())).services[0]
    assert service.utilization.upper_bound
    until = "Headroom at most 3.8x until requests wait at peak; 4.0x until threads run out"
    assert service.verdict.sentence.startswith(until)
    assert service.utilization.usable == pytest.approx(3.8, abs=0.05)
    assert "CPU use is not known" in service.verdict.certainty


def test_usable_headroom_follows_how_much_response_times_vary():
    """Requests of one length wait later than those of very different ones. Without response times, they are taken as
    exponential."""
    record, bins = _busiest(_without_cpu(_data(days=1))), share_bins()

    def usable(parts: dict[float, float]) -> float:
        counts = [0.0] * len(bins)
        for seconds, part in parts.items():
            counts[bins.find(seconds)] = part * 10_000
        times = ResponseTimeWindow(bins, 0.2, 10_000, counts, [0.0] * len(bins)) if parts else None
        return judge([replace(record, response_times=times)]).headroom.usable

    regular, varied, unknown = usable({0.2: 1}), usable({0.2: 0.95, 9.0: 0.05}), usable({})
    assert regular > unknown > varied


def test_nothing_known_is_no_verdict():
    """A server of which nothing was sampled."""
    data = _data(days=1)
    nothing = change(data, with_workers(lambda worker: replace(worker, busy_seconds=None)))
    for known in (nothing, replace(data, servers=(change_server(data.servers[0], lambda _: None),))):
        review = build_review(known)
        assert review.judgement == "unknown"
        assert "no quarter hour" in review.services[0].verdict.sentence


def test_an_hour_counts_once_and_in_each_of_its_quarters():
    """Where a file keeps hours only, four quarters have one record: sums are right, and so is the busiest."""
    data = _data(days=1)
    (server,) = data.servers
    hours: dict[float, Record] = {}
    for place, end in enumerate(server.quarters):
        hours[end] = list(server.quarters.values())[place - place % 4]
    whole = build_review(replace(data, servers=(replace(server, quarters=hours),))).services[0]
    assert whole.users.requests == sum(
        worker.requests for record in server.records[::4] for worker in record.window.workers
    )
    assert whole.utilization.in_service == max(map(mean_busy, server.records[::4]))
