"""The busiest quarter hours: which one counts, and that it is judged as `check` judges."""

from zoneinfo import ZoneInfo

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support import windows
from tests.support.synthetic import stories
from tests.support.synthetic.plan import History, Service
from tests.support.synthetic.server import make_review_data
from uwsgi_headroom.analysis.balance import compute_balance
from uwsgi_headroom.analysis.capacity import CpuShares, compute_headroom
from uwsgi_headroom.analysis.findings import collect_findings
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.verdict import verdict_sentence
from uwsgi_headroom.report.columns import ReviewData, ServerData
from uwsgi_headroom.report.review import build_review
from uwsgi_headroom.report.review.peaks import find_peaks, group_services
from uwsgi_headroom.report.review.windows import figures_at

UTC = ZoneInfo("UTC")
PLAIN = Service(name="plain", peak=8.0, contention=False, weekdays=(1.0,) * 7, noise=0.01)


def _server(service: Service = PLAIN, days: float = 8) -> ServerData:
    return make_review_data(History(services=(service,), days=days, until=stories.UNTIL)).servers[0]


def _review_of(*servers: ServerData) -> ReviewData:
    return ReviewData(
        servers=servers, since=float(servers[0].time[0] - 900), until=float(servers[0].time[-1]), source=""
    )


def test_a_quarter_hour_is_judged_as_check_would():
    """A window built by hand from the story's rates gives the same headroom, balance and findings."""
    server = _server(replace(stories.STORY, servers=1, peak=13.8), days=1)
    place = int(np.nanargmax(server.busy))
    figures = figures_at(server, np.array([place]))
    workers = [
        windows.worker(
            each.worker_id,
            round(900 * each.requests[place]),
            each=each.running[place] / each.requests[place],
            cpu=900 * each.cpu[place],
            busy=900 * each.busy[place],
            lock=900 * each.lock[place],
        )
        for each in server.by_worker
    ]
    window = windows.window(900.0, *workers)
    balance, flow = compute_balance(window), compute_flow(window)
    own, idle = server.cpu_own[place], server.cpu_idle[place]
    expected = compute_headroom(flow, balance, 32, 4.0, CpuShares(own, idle, 0.3))
    assert figures.headroom.first == expected.first == "hottest_interpreter"
    assert figures.headroom.by_limit == pytest.approx(expected.by_limit, rel=1e-3)
    assert figures.balance.hot_ratio == pytest.approx(balance.hot_ratio, rel=1e-3)
    assert figures.balance.cost == pytest.approx(balance.cost, rel=1e-2)
    assert figures.flow.observed == pytest.approx(server.busy[place])
    service = build_review(_review_of(server)).services[0]
    at_peak = verdict_sentence(figures.headroom, ()).replace(":", " at peak:", 1).removesuffix(".")
    assert service.verdict.sentence.startswith(at_peak)
    assert "unevenness_hurts" in [finding.code for finding in collect_findings(figures)]


def test_the_busiest_of_all_days_counts():
    """Without an incident, it is the quarter hour with most threads in service in the whole range."""
    server = _server()
    peaks = find_peaks(group_services(_review_of(server))[0], UTC)
    assert peaks.exception is None
    assert peaks.daily.peaks[peaks.counts] == np.nanmax(server.busy)


def test_an_incident_does_not_count_and_is_reported():
    """A stuck backend fills every thread for one quarter hour: the verdict is about load, and the report says when."""
    server = _server()
    busy = server.busy.copy()
    place = int(np.nanargmax(server.busy))
    busy[place] = 32.0
    review = build_review(_review_of(replace(server, busy=busy)))
    used = review.services[0].utilization
    assert used.exception == (server.time[place], 32.0)
    assert used.in_service < 9.0


def test_a_peak_before_more_threads_were_added_does_not_count():
    """The server had 16 threads in the first half, and has 32 now: headroom is that of the present setting."""
    server = _server()
    configured = server.configured.copy()
    half = len(configured) // 2
    configured[:half] = 16.0
    busy = server.busy.copy()
    busy[:half] *= 1.2
    used = build_review(_review_of(replace(server, configured=configured, busy=busy))).services[0].utilization
    assert used.until > server.time[half]
    assert used.configured == 32


def test_with_one_server_lost_the_others_take_its_load_in_proportion():
    """Weights 50/25/25: without the large one, the small ones have twice their load, 12 of 32 threads; without a small
    one, the large one has 4/3 of its 12 threads, which is worse."""
    service = replace(PLAIN, name="three", servers=3, weights=(0.5, 0.25, 0.25), peak=24.0)
    used = (
        build_review(make_review_data(History(services=(service,), days=3, until=stories.UNTIL)))
        .services[0]
        .utilization
    )
    assert used.lost_server in ("three-2", "three-3")
    assert [server.concurrency for server in used.servers] == pytest.approx([12.0, 6.0, 6.0])
    threads = next(use for use in used.limits if use.limit == "threads")
    assert threads.one_lost == pytest.approx(12 / 32 * 4 / 3, rel=1e-3)


def _without_cpu(server: ServerData) -> ServerData:
    nan = np.full_like(server.time, np.nan)
    workers = tuple(replace(worker, cpu=nan) for worker in server.by_worker)
    return replace(server, cpus=nan, cpu_own=nan, cpu_idle=nan, cpu_others=nan, by_worker=workers)


def test_unknown_cpu_makes_headroom_an_upper_bound():
    """Without CPU times, threads are the only limit, and the verdict says `at most`."""
    service = build_review(_review_of(_without_cpu(_server()))).services[0]
    assert service.utilization.upper_bound
    until = "Headroom at most 3.8x until requests wait at peak; 4.0x until threads run out"
    assert service.verdict.sentence.startswith(until)
    assert service.utilization.usable == pytest.approx(3.8, abs=0.05)
    assert "CPU use is not known" in service.verdict.certainty


def test_usable_headroom_follows_how_much_response_times_vary():
    """By the histogram's buckets: requests of one length wait later than those of very different ones. Without
    response times, and where nearly all are in the first bucket, they are taken as exponential."""
    server, bounds = _without_cpu(_server(days=1)), (0.01, 0.25, 0.5, 10.0, float("inf"))
    place = np.array([int(np.nanargmax(server.busy))])

    def usable(*parts: float) -> float:
        by_time = tuple(part * server.requests for part in parts)
        found = figures_at(replace(server, bounds=bounds if parts else (), by_time=by_time), place).usable
        return found.factor

    regular, varied, unknown = usable(0, 1, 0, 0, 0), usable(0, 0.95, 0, 0.05, 0), usable()
    assert regular > unknown > varied
    assert usable(1, 0, 0, 0, 0) == unknown


def test_a_server_whose_workers_are_unknown_is_judged_by_its_threads():
    """No figures of single workers: threads and CPUs are judged, and balance says why it is not."""
    service = build_review(_review_of(replace(_server(), by_worker=()))).services[0]
    assert service.utilization.first == "threads"
    assert service.utilization.in_service == pytest.approx(8.0, rel=1e-3)
    assert "no figures of single workers" in service.balance.summary


def test_nothing_known_is_no_verdict():
    """A server of which nothing was sampled."""
    server = _server(days=1)
    nan = np.full_like(server.time, np.nan)
    review = build_review(_review_of(replace(server, busy=nan)))
    assert review.judgement == "unknown"
    assert "no quarter hour" in review.services[0].verdict.sentence
