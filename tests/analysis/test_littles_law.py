"""Throughput, response time, concurrency and queue wait of windows with known true figures."""

import random
from bisect import bisect_right
from itertools import pairwise

import pytest
from msgspec.structs import replace

from tests.analysis.judging import findings_by_code
from tests.support.windows import the_example, window, worker
from uwsgi_headroom.analysis.littles_law import (
    STEADY,
    compute_flow,
    judge_waiting,
    longest_service,
    waiting_clause,
)
from uwsgi_headroom.record import Backlog


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        # 27.8 requests per second of half a second each are 14 in service, by the law and as observed.
        (the_example(), {"throughput": 27.8, "response_time": 0.5, "littles_law": 14, "observed": 14}),
        # If no request is static, L is throughput times response time.
        (window(60, worker(1, 300, each=0.3), worker(2, 60, each=0.05)), {"littles_law": 6 * 93 / 360}),
        # Static files count as requests but not in the response time, to which uWSGI adds nothing for them.
        (window(10, worker(1, 100, each=0.2, static=60)), {"throughput": 10, "response_time": 0.2}),
        (window(10, worker(1, 10, each=0.2, static=10)), {"response_time": None}),
        (window(10, worker(1, 10, each=0.2, static=11)), {"response_time": None}),  # a race
        (window(10, worker(1, 0, busy=0.0)), {"throughput": 0, "littles_law": 0, "observed": 0, "response_time": None}),
        # The law includes a request only after its end; samples include it earlier.
        (window(10, worker(1, 0, busy=10.0)), {"littles_law": 0, "observed": 1}),
        (window(10, worker(1, 5, each=None)), {"throughput": 0.5, "response_time": None, "littles_law": None}),
        (window(10, worker(1, 5, each=None)), {"observed": None, "queue_wait": None}),
        # The response time is that of requests with a known time; without one of them, a sum would be too low.
        (window(10, worker(1, 50, each=0.2), worker(2, 50, each=None)), {"response_time": 0.2, "littles_law": None}),
        # If half a minute is a gap, thirty thread seconds in the other half are one thread.
        (window(60, worker(1, 10, busy=30.0), observed=30), {"observed": 1}),
        (window(60, worker(1, 600, busy=0.0), observed=0, socket=0.0), {"observed": None, "littles_law": 1}),
        (window(60, worker(1, 600, busy=0.0), observed=0, socket=0.0), {"queue_wait": None}),
        # The wait is a mean over all requests, of all sockets; the length of a queue is over observed time.
        (window(60, worker(1, 600), one=60.0, two=120.0), {"queue_wait": 0.3}),
        (window(60, worker(1, 0), one=60.0, two=120.0), {"queue_wait": None}),
        (window(60, worker(1, 600), observed=20, socket=100.0), {"queue_wait": 5 / 10}),
    ],
)
def test_figures_of_a_window(of, expected):
    """Static files, gaps, and figures that are not known make none of the others wrong."""
    found = compute_flow(of)
    for name, value in expected.items():
        assert getattr(found, name) == (value and pytest.approx(value, rel=0.008)), name


@pytest.mark.parametrize(
    ("of", "left", "full", "waiting", "service"),
    [
        # Four threads are busy all the time, and ten requests a second leave the queue.
        ({"run/web": 600.0}, 600, 60.0, "severe", 0.4),
        ({"127.0.0.1:80": 600.0}, 600, 60.0, "severe", None),  # others left it unseen
        # A few meet in a burst: the others, which are more, find the queue empty and leave no trace.
        ({"run/web": 36.0}, 180, 10.0, "none", None),
        ({"run/web": 90.0}, 600, 60.0, "noticed", None),  # many of them between two samples
    ],
)
def test_requests_that_nobody_counts(of, left, full, waiting, service):
    """Those that are seen to leave a queue say how long they waited, and how long a request is in service if nearly all
    pass through the queue."""
    seen = {"queue_left": left, "queue_left_timed": left, "queue_left_seconds": sum(of.values()), "queue_lists": 3000}
    uncounted = replace(window(60, worker(1, 0, busy=240.0), **of), is_counted=False, full_seconds=full, **seen)
    flow = compute_flow(uncounted)
    assert judge_waiting(flow) == waiting
    assert longest_service(flow, uncounted) == (service and pytest.approx(service))


def test_queue_wait_is_exact_on_a_queue():
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
    truth = sum(leave - arrival for arrival, leave in zip(arrivals, leaves, strict=True)) / len(arrivals)
    area = sum(
        (bisect_right(arrivals, start) - bisect_right(leaves, start)) * (stop - start)
        for start, stop in pairwise(sorted([*arrivals, *leaves]))
    )
    assert truth > 0.01
    assert compute_flow(window(max(free) + 1, worker(1, 500), socket=area)).queue_wait == pytest.approx(truth)


@pytest.mark.parametrize("stalls_at", [2.0, 20.0, 29.0])
def test_a_wait_in_a_stall_is_no_longer_than_the_stall(stalls_at):
    """While most requests still wait, the mean over those served, those in service and those that wait is a floor: at
    most what they have waited up to now, where Little's law says a wait that nobody has had."""
    end, every = 30.0, 0.1
    arrivals = [every * number for number in range(1, round(end / every))]
    served = [at for at in arrivals if at < stalls_at]  # at once; four of the others hold the threads, the rest waits
    waiting = [at for at in arrivals if at >= stalls_at][4:]
    area = sum(end - at for at in waiting)
    row = window(end, worker(1, len(served), busy=4 * (end - stalls_at)), socket=area)
    flow = compute_flow(row, {"socket": Backlog(len(waiting), 1000, None)})
    law = compute_flow(row).queue_wait
    if len(served) >= STEADY * len(waiting):
        assert (flow.queue_wait, flow.wait_is_floor) == (law, False)
        return
    truth = area / (len(served) + 4 + len(waiting))
    assert flow.wait_is_floor
    assert 0.9 * truth <= flow.queue_wait <= 1.1 * truth <= min(law, end - stalls_at)
    assert waiting_clause(flow).startswith("requests wait at least ")


@pytest.mark.parametrize(("area", "clause"), [(0.0, "empty"), (2.0, "nearly empty")])
def test_the_queue_of_a_server_that_completes_nothing(area, clause):
    """Its length is known, though not the wait."""
    flow = compute_flow(window(10.0, worker(1, 0, busy=40.0), socket=area))
    assert waiting_clause(flow) == f"the listen queue is {clause}"


@pytest.mark.parametrize(
    ("requests", "area", "queues", "wait"),
    [
        (1600, 2000.0, {"socket": Backlog(100, 100, None)}, 1.25),
        (1600, 2000.0, {"other": Backlog(5000, None, None)}, 1.25),  # another server's socket
        (1600, 2000.0, None, 1.25),
        (0, 40.0, {"socket": Backlog(2, 100, None)}, None),
    ],
)
def test_a_queue_that_moves(requests, area, queues, wait):
    """A standing queue that is passed on many times in the window has no doubt."""
    flow = compute_flow(window(20.0, worker(1, requests, busy=160.0), socket=area), queues)
    assert (flow.queue_wait, flow.wait_is_floor) == (wait and pytest.approx(wait), False)


@pytest.mark.parametrize(
    ("lists", "left", "timed", "seconds", "expected"),
    [
        (300, 100, 100, 40.0, (0.4, False)),
        (300, 100, 50, 20.0, (0.4, False)),  # since when the others waited is not known
        (100, 100, 100, 40.0, (None, False)),  # a list in 0.6 s: the wait may be any shorter one
        (300, 2, 2, 0.8, (40.0, True)),  # nearly all still wait
        (None, None, None, None, (None, False)),  # the queue cannot be listed
    ],
)
def test_without_counts_the_wait_is_that_of_requests_seen_in_the_queue(lists, left, timed, seconds, expected):
    """Without uWSGI's stats, no rate is known: the wait of those that were seen to leave a queue is."""
    of = replace(window(60, worker(1, 0, busy=240.0), socket=240.0), is_counted=False, queue_lists=lists)
    of = replace(of, queue_left=left, queue_left_timed=timed, queue_left_seconds=seconds)
    flow = compute_flow(of, {"socket": Backlog(4, 100, None)})
    assert (flow.queue_wait, flow.wait_is_floor) == (expected[0] and pytest.approx(expected[0]), expected[1])


def test_requests_that_wait_while_none_is_served_are_blocked():
    """Without counts, requests that wait beside idle threads, as those of stopped workers, hurt users."""
    of = replace(window(60, worker(1, 0, busy=0.0), socket=60 * 30), is_counted=False)
    of = replace(of, queue_lists=300, queue_left=0, queue_left_timed=0, queue_left_seconds=0.0)
    assert judge_waiting(compute_flow(of, {"socket": Backlog(30, 100, None)})) == "severe"


@pytest.mark.parametrize(("waiting", "expected"), [(4.0, ("warning", True)), (0.9, (None, False))])
def test_requests_that_stand_in_a_queue_are_said_to(waiting, expected):
    """Without counts, a wait that is too short to be known is no empty queue."""
    of = replace(window(60, worker(1, 0, busy=240.0), socket=60 * waiting), is_counted=False, full_seconds=60.0)
    found = findings_by_code(of).get("queue_wait")
    stands = f"{waiting:g} requests stand in the listen queue" == waiting_clause(compute_flow(of))
    assert (found and found.severity, stands) == expected
