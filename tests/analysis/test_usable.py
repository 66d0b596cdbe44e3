"""Usable headroom: exact formulas, published values of Erlang C, its bounds, and each limit as a queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.analysis import judging
from tests.analysis.judging import change_workers
from tests.support.simulated_server import Server
from tests.support.windows import the_example, window, worker
from uwsgi_headroom.analysis.capacity import rank_limits
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import LEAST_WAIT, MOST_WAIT, WAIT_RATIO, noticed_wait
from uwsgi_headroom.analysis.usable import (
    LEAST_REQUESTS,
    MOST_VARIATION,
    erlang_wait,
    highest_utilization,
    variation,
)
from uwsgi_headroom.analysis.verdict import verdict_sentence
from uwsgi_headroom.history.response_times.bins import share_bins
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow
from uwsgi_headroom.history.window import Window


def figures_of(of: Window, processes: int = 1, threads: int = 1, cpus: float = 64.0) -> Figures:
    """The figures of a window of a server of this setting."""
    return judging.figures_of(of, Server(processes=processes, threads=threads, cpus=cpus))


def sleeping(throughput: float, each: float, workers: int = 1, queue: float = 0.0) -> Window:
    """A minute of requests that only sleep, spread evenly over the workers. queue: mean length of the queue."""
    requests = round(60 * throughput / workers)
    rows = [worker(number, requests, each=each, busy=requests * each) for number in range(1, workers + 1)]
    return window(60, *rows, app=60 * queue)


@pytest.mark.parametrize(
    ("threads", "offered", "share"),
    [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (3, 2.0, 4 / 9), (4, 3.2, 0.5964), (5, 4.0, 0.5541), (10, 8.0, 0.4092)],
)
def test_published_values_of_erlang_c(threads, offered, share):
    """The share of requests that find all threads busy is that of published tables. If all always are, no wait ends."""
    assert erlang_wait(threads, offered, 0.2) == pytest.approx(share * 0.2 / (threads - offered), abs=1e-4)
    assert erlang_wait(threads, float(threads), 0.2) == float("inf")


@given(st.integers(1, 2000), st.floats(1e-4, 1e4))
def test_the_wait_at_the_utilization_is_the_one_asked_for(threads, wait):
    """At the utilization found, the mean wait is as asked, within a hundredth; or the threads are as good as full."""
    use = highest_utilization(threads, wait)
    assert 0 < use <= 1
    if use < 0.9999:
        assert erlang_wait(threads, use * threads, 1.0) == pytest.approx(wait, rel=0.01)


def test_threshold_of_a_noticed_wait():
    """It is a quarter of the response time between 20 ms and 0.1 s."""
    assert (WAIT_RATIO, LEAST_WAIT, MOST_WAIT) == (0.25, 0.02, 0.1)
    assert [noticed_wait(each) for each in (None, 0.002, 0.08, 0.2, 0.4, 10)] == pytest.approx(
        [0.02, 0.02, 0.02, 0.05, 0.1, 0.1]
    )


def minute(*workers: tuple[int, float, float], locked: float | None = None, queue: float = 0.0) -> Window:
    """A minute of workers with these requests, seconds and CPU seconds of each; each holds its lock for a while."""
    figures = enumerate(workers, 1)
    rows = (worker(n, count, each=each, busy=count * each, cpu=cpu) for n, (count, each, cpu) in figures)
    of = window(60, *rows, app=60 * queue)
    return of if locked is None else change_workers(of, lock_seconds=60.0, lock_held_seconds=locked)


OUTSIDE = change_workers(minute((600, 0.25, 90.0), (60, 0.5, 3.0)), interpreter_lock_seconds=0.0)
OUTSIDE = replace(OUTSIDE, waits=window(60, waits={"backend": 3.0}).waits)


@pytest.mark.parametrize(
    ("figures", "first", "factor"),
    [
        # A server whose requests wait has no usable headroom, however few threads are busy; one at 90 % whose requests
        # do not wait for a thread, because clients take turns, has all of its present load.
        (figures_of(sleeping(10, 0.1, queue=0.5), threads=4), "threads", 1.0),
        (figures_of(sleeping(36, 0.1), threads=4), "threads", 1.0),
        (figures_of(replace(sleeping(36, 0.1), queue_seconds={}), threads=4), "threads", 0.648 / 0.9),
        # Workers of one thread that compute wait for CPUs: 4 workers on 2 CPUs, at 20 ms each, from a use of 0.71 on.
        (figures_of(minute(*[(450, 0.02, 9.0)] * 4), 4, 1, 2.0), "cpu", 0.707 / 0.3),
        # With several threads, requests wait for the interpreter of the hottest worker; with one, for nothing in it.
        (figures_of(the_example(), 4, 8), "hottest_interpreter", None),
        (figures_of(minute((900, 0.02, 18.0), (450, 0.02, 9.0)), 2, 1), "threads", None),
        # A worker that computes outside of its interpreter's lock is not the hottest one.
        (figures_of(OUTSIDE, 2, 8), "threads", 4.66),
        # Requests that hold their worker's lock for 48 ms on average wait 20 ms from a use of 0.29 on.
        (figures_of(minute(*[(600, 0.07, 0.0)] * 2, locked=28.8), 2, 8), "lock", 0.02 / 0.068 / 0.48),
    ],
)
def test_what_requests_wait_for_first(figures, first, factor):
    """Measured waits come before computed ones, and each limit is a queue."""
    assert figures.headroom.usable_first == first
    assert factor is None or figures.headroom.usable == pytest.approx(factor, abs=0.01)


def test_measured_waits_in_service():
    """Requests that wait for CPUs in service have no usable headroom; if they do not wait there yet, they have all of
    their present load. What they wait for is no part of the service time that the threshold is a quarter of."""
    parts = {"none": None, "little": {"sleep": 5.95, "cpu_wait": 0.05}, "much": {"sleep": 3.0, "cpu_wait": 3.0}}
    of = minute(*[(450, 0.2, 18.0)] * 4)
    waits = {name: each and window(60, waits=each).waits for name, each in parts.items()}
    found = {name: figures_of(replace(of, waits=each), 4, 8).headroom for name, each in waits.items()}
    assert found["none"].usable == pytest.approx(found["little"].usable, rel=0.01)
    assert found["little"].usable > 1
    assert found["much"].usable == 1
    assert found["much"].usable_first != "threads"


def times(*seconds: float, requests: int = 1000, interval: float = 0.2) -> ResponseTimeWindow:
    """Requests that take one of these times each, in equal numbers."""
    bins = share_bins()
    counts = [0.0] * len(bins)
    for each in seconds:
        counts[bins.find(each)] += requests / len(seconds)
    return ResponseTimeWindow(bins, interval, requests, counts, [0.0] * len(bins))


def test_variation_of_response_times():
    """Requests that are all alike wait half as long as those of an exponential distribution; a few that are very long
    count up to a bound; and too few or too short ones say nothing."""
    assert variation(times(0.5)) == pytest.approx(0.5, abs=0.01)
    assert variation(times(0.2, 1.0)) == pytest.approx((1 + 4 / 9) / 2, abs=0.02)
    assert variation(times(*[0.2] * 999, 1000.0)) == (1 + MOST_VARIATION) / 2
    for unknown in (None, times(0.5, requests=LEAST_REQUESTS - 1), times(0.01), times(0.5, requests=0)):
        assert variation(unknown) == 1.0


@pytest.mark.parametrize(
    ("factor", "far", "sentence"),
    [
        (1.6, ("cpu",), "Headroom 1.6x until requests wait; 2.4x until threads run out."),
        (2.4, ("cpu",), "Headroom 2.4x: threads run out first."),
        (0.9, ("cpu",), "Requests wait with more load; headroom 2.4x until threads run out."),
        (
            1.6,
            (),
            "Headroom at most 1.6x until requests wait; 2.4x until threads run out (CPU is not visible from here).",
        ),
    ],
)
def test_the_sentence_of_a_healthy_server(factor, far, sentence):
    """It says by how much load can grow until requests wait, and until the limit; once if both are alike."""
    room = rank_limits({"threads": 2.4}, far=far, usable=factor, usable_first="threads")
    assert verdict_sentence(room, ()) == sentence
