"""The batches of the last hour, and the windows over them."""

from __future__ import annotations

import tracemalloc

import pytest

from uwsgi_headroom.response_times.bins import Bins
from uwsgi_headroom.response_times.estimator import Division
from uwsgi_headroom.response_times.totals import BatchHistory, Misses

BINS = Bins()


def division(*seconds: float, number: float = 1.0) -> Division:
    counts = [0.0] * len(BINS)
    for each in seconds:
        counts[BINS.find(each)] += number
    return Division(counts, [count / 2 for count in counts])


def filled(batches: int, *seconds: float) -> BatchHistory:
    """Batches of 5 s with a request of each length, and a lost one in every tenth."""
    history = BatchHistory(BINS)
    for place in range(1, batches + 1):
        lost, slow = int(place % 10 == 0), sum(each > 1.0 for each in seconds)
        missed = Misses(len(seconds) + lost, slow, 0.0, lost)
        history.add(5.0 * place, 5.0, 0.2, len(seconds), lost, division(*seconds), missed)
    return history


def test_a_window_has_the_batches_that_ended_in_it() -> None:
    """Not that which ended at its start, but that which ends at its end."""
    window = filled(10, 0.1, 2.0, 2.0).window(10.0, 25.0)
    assert window
    assert (window.requests, window.interval) == (9, pytest.approx(0.2))
    assert window.counts[BINS.find(2.0)] == 6
    assert window.doubt[BINS.find(0.1)] == 1.5


def test_no_batches_no_window() -> None:
    """Before the first batch, and in times without one, there is no window."""
    assert BatchHistory(BINS).window(0.0, 9e9) is None
    assert BatchHistory(BINS).slow_requests(0.0, 9e9) is None
    assert BatchHistory(BINS).ended == float("-inf")
    history = filled(3, 0.1)
    assert history.ended == 15.0
    assert history.window(15.0, 99.0) is None
    assert history.window(9.0, 1.0) is None


def test_batches_without_requests() -> None:
    """They have a length, and no requests."""
    history = BatchHistory(BINS)
    history.add(5.0, 5.0, 0.2, 0, 1, Division((), ()), Misses(1, 0.0, 0.0, 1))
    window, slow = history.window(0.0, 5.0), history.slow_requests(0.0, 5.0)
    assert window
    assert slow
    assert (window.requests, sum(window.counts)) == (0, 0)
    assert slow == (5.0, 0, 0, 1, 0, 0)


def test_slow_requests() -> None:
    """Requests that took as long as the bound are not slower."""
    history = filled(20, 0.99, 1.0, 1.2, 9.0)
    assert history.slow_requests(0.0, 50.0) == (50.0, 40, 20.0, 1, 0, 0)
    assert filled(20, 0.99, 1.0).slow_requests(0.0, 100.0) == (100.0, 40, 0.0, 2, 0, 0)


def test_a_slow_request_that_is_lost_later_is_lost() -> None:
    """The count has it once, as slow, from when it was in service beyond the threshold."""
    history = BatchHistory(BINS)
    history.add(5.0, 5.0, 0.2, 0, 0, Division((), ()), Misses(3, 3.0))
    history.add(10.0, 5.0, 0.2, 0, 2, Division((), ()), Misses())
    assert history.slow_requests(0.0, 10.0) == (10.0, 1, 1.0, 2, 0, 0)


def test_an_hour_is_kept() -> None:
    """Older batches are forgotten; a minute more at most is kept."""
    history = filled(2000, 0.1)
    window = history.window(0.0, 10_000.0)
    assert window
    assert 3600 / 5 <= window.requests <= 3660 / 5


def test_memory_of_an_hour() -> None:
    """An hour of batches with requests in 40 bins takes less than a megabyte."""
    many = division(*BINS.edges[60:100])
    tracemalloc.start()
    try:
        history = BatchHistory(BINS)
        for place in range(800):
            history.add(5.0 * place, 5.0, 0.2, 40, 0, many)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 50_000 < size < 1_000_000
