"""Throughput, response time, concurrency and queue wait of windows with known true figures."""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import pairwise

import pytest

from tests.support.windows import the_example, window, worker
from uwsgi_headroom.analysis.littles_law import STEADY, compute_flow, queue_wait, ratio, waiting_clause
from uwsgi_headroom.record import Backlog


def test_one_hot_worker_of_four() -> None:
    """27.8 requests per second of half a second each are 14 in service, by the law and as observed."""
    result = compute_flow(the_example())
    assert result.throughput == pytest.approx(27.8, abs=0.05)
    assert result.response_time == pytest.approx(0.5, abs=0.005)
    assert result.littles_law == pytest.approx(14)
    assert result.observed == pytest.approx(14)


def test_law_is_the_product() -> None:
    """If no request is static, L is throughput times response time."""
    result = compute_flow(window(60, worker(1, 300, each=0.3), worker(2, 60, each=0.05)))
    assert result.throughput is not None
    assert result.response_time is not None
    assert result.littles_law == pytest.approx(result.throughput * result.response_time)


def test_static_files_do_not_shorten_the_mean() -> None:
    """Static files count as requests but not in the response time, to which uWSGI adds nothing for them."""
    result = compute_flow(window(10, worker(1, 100, each=0.2, static=60)))
    assert (result.throughput, result.response_time) == (10, pytest.approx(0.2))


@pytest.mark.parametrize("static", [10, 11])
def test_nothing_but_static_files(static: int) -> None:
    """Then there is no response time, even if a race counts one static file more than requests."""
    assert compute_flow(window(10, worker(1, 10, each=0.2, static=static))).response_time is None


def test_nothing_served() -> None:
    """Without requests the throughput is 0, and there is no response time."""
    result = compute_flow(window(10, worker(1, 0, busy=0.0)))
    assert (result.requests, result.throughput, result.littles_law, result.observed) == (0, 0, 0, 0)
    assert result.response_time is None


def test_request_that_never_ends_is_observed_only() -> None:
    """The law includes a request only after its end; samples include it earlier."""
    result = compute_flow(window(10, worker(1, 0, busy=10.0)))
    assert (result.littles_law, result.observed) == (0, 1)


def test_unknown_figures_are_none() -> None:
    """Running time, busy threads and queue may be unknown."""
    result = compute_flow(window(10, worker(1, 5, each=None)))
    assert (result.response_time, result.littles_law, result.observed, result.queue_wait) == (None,) * 4
    assert result.throughput == 0.5


def test_worker_of_unknown_time_does_not_shorten_the_mean() -> None:
    """The response time is that of the requests with a known time."""
    assert compute_flow(window(10, worker(1, 50, each=0.2), worker(2, 50, each=None))).response_time == pytest.approx(
        0.2
    )


def test_worker_of_unknown_time_leaves_the_law_unknown() -> None:
    """Without one worker's concurrency the sum would be too low."""
    result = compute_flow(window(10, worker(1, 50, each=0.2, busy=10.0), worker(2, 50, each=None, busy=10.0)))
    assert (result.littles_law, result.observed) == (None, 2)


def test_observed_concurrency_is_over_observed_time() -> None:
    """If half a minute is a gap, thirty thread seconds in the other half are one thread."""
    assert compute_flow(window(60, worker(1, 10, busy=30.0), observed=30)).observed == 1


def test_window_that_is_entirely_a_gap() -> None:
    """Without samples, neither observed concurrency nor a queue wait is known."""
    result = compute_flow(window(60, worker(1, 600, each=0.1, busy=0.0), observed=0, socket=0.0))
    assert result.observed is None
    assert result.queue_wait is None
    assert result.littles_law == pytest.approx(1)


def test_queue_wait_of_several_sockets() -> None:
    """The queue wait is a mean over all requests, of all sockets."""
    result = window(60, worker(1, 600), one=60.0, two=120.0)
    assert queue_wait(result, 600) == pytest.approx(0.3)
    assert queue_wait(result, 0) is None


def test_queue_wait_is_exact_on_a_queue() -> None:
    """For a queue that starts and ends empty, Little's law holds exactly: its length over time is the waits of its
    requests."""
    rng = random.Random(4)
    arrivals, at = [], 0.0
    for _ in range(500):
        at += rng.expovariate(10)
        arrivals.append(at)
    leaves, free = [], [0.0, 0.0, 0.0]
    for arrival in arrivals:
        free.sort()
        leaves.append(max(arrival, free[0]))
        free[0] = leaves[-1] + rng.expovariate(4)
    end = max(free) + 1
    truth = sum(leave - arrival for arrival, leave in zip(arrivals, leaves, strict=True)) / len(arrivals)
    changes = sorted([*arrivals, *leaves])
    area = sum(
        (bisect_right(arrivals, start) - bisect_right(leaves, start)) * (stop - start)
        for start, stop in pairwise(changes)
    )
    assert truth > 0.01
    assert compute_flow(window(end, worker(1, 500), socket=area)).queue_wait == pytest.approx(truth)


@pytest.mark.parametrize("stalls_at", [2.0, 20.0, 29.0])
def test_a_wait_in_a_stall_is_no_longer_than_the_stall(stalls_at: float) -> None:
    """While most requests still wait, the mean over those served, those in service and those that wait is a floor: at
    most what they have waited up to now, where Little's law says a wait that nobody has had."""
    end, every = 30.0, 0.1
    arrivals = [every * number for number in range(1, round(end / every))]
    served = [at for at in arrivals if at < stalls_at]  # at once; four of the others hold the threads, the rest waits
    waiting = [at for at in arrivals if at >= stalls_at][4:]
    area = sum(end - at for at in waiting)
    row = window(end, worker(1, len(served), busy=4 * (end - stalls_at)), socket=area)
    flow = compute_flow(row, {"socket": Backlog(len(waiting), 1000, None)})
    law = queue_wait(row, len(served))
    if len(served) >= STEADY * len(waiting):
        assert (flow.queue_wait, flow.wait_is_floor) == (law, False)
        return
    assert flow.wait_is_floor
    assert flow.queue_wait is not None
    assert law is not None
    truth = area / (len(served) + 4 + len(waiting))
    assert 0.9 * truth <= flow.queue_wait <= 1.1 * truth <= min(law, end - stalls_at)
    assert waiting_clause(flow).startswith("requests wait at least ")


@pytest.mark.parametrize(("area", "clause"), [(0.0, "empty"), (2.0, "nearly empty")])
def test_the_queue_of_a_server_that_completes_nothing(area: float, clause: str) -> None:
    """Its length is known, though not the wait."""
    flow = compute_flow(window(10.0, worker(1, 0, busy=40.0), socket=area))
    assert waiting_clause(flow) == f"the listen queue is {clause}"


def test_a_queue_that_moves_has_the_wait_of_the_law() -> None:
    """A standing queue that is passed on many times in the window has no doubt, and one of another server's socket none
    either."""
    row = window(20.0, worker(1, 1600, busy=160.0), socket=2000.0)
    for queues in ({"socket": Backlog(100, 100, None)}, {"other": Backlog(5000, None, None)}, None):
        flow = compute_flow(row, queues)
        assert (flow.queue_wait, flow.wait_is_floor) == (pytest.approx(1.25), False)
    none = compute_flow(window(20.0, worker(1, 0, busy=20.0), socket=40.0), {"socket": Backlog(2, 100, None)})
    assert (none.queue_wait, none.wait_is_floor) == (None, False)


def test_queue_wait_with_a_gap() -> None:
    """The queue's mean length is over observed time; requests are over the whole window."""
    result = window(60, worker(1, 600), observed=20, socket=100.0)
    assert queue_wait(result, 600) == pytest.approx(5 / 10)


@pytest.mark.parametrize(
    ("part", "whole", "result"), [(1, 2, 0.5), (0, 2, 0), (1, 0, None), (0, 0, None), (1, -1, None)]
)
def test_ratio(part: float, whole: float, result: float | None) -> None:
    """Without a whole there is no ratio, rather than NaN or infinity."""
    assert ratio(part, whole) == result
