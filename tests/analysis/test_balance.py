"""Shares, unevenness, chance and cost."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.windows import the_example, the_harmless_one, window, worker
from uwsgi_headroom.analysis.balance import ENOUGH_REQUESTS, compute_balance, fairness, noise_floor


def test_one_hot_worker_of_four() -> None:
    """One worker takes 43 %, its interpreter is saturated, its requests take 0.67 s against 0.38 s, and balancing would
    save a quarter of the mean."""
    result = compute_balance(the_example())
    hot = result.workers[1]
    assert result.hottest == hot
    assert hot.share == pytest.approx(0.43, abs=0.001)
    assert result.hot_ratio == pytest.approx(1.72, abs=0.005)
    assert result.noise_floor is not None
    assert result.hot_ratio > result.noise_floor
    assert hot.interpreter_load == pytest.approx(1.0, abs=0.01)
    assert hot.concurrency == pytest.approx(8)
    assert hot.response_time == pytest.approx(0.67, abs=0.005)
    assert {round(worker.response_time or 0, 2) for worker in result.workers if worker is not hot} == {0.38}
    assert result.calm_response_time == pytest.approx(0.38, abs=0.005)
    assert result.cost == pytest.approx(1 - 0.38 / 0.5, abs=0.02)


def test_the_harmless_case() -> None:
    """Shares of 33/26/23/18 % are beyond chance, but the interpreters have room: the cost is nearly zero."""
    result = compute_balance(the_harmless_one())
    assert [round(worker.share or 0, 2) for worker in result.workers] == [0.33, 0.26, 0.23, 0.18]
    assert result.hot_ratio == pytest.approx(1.32)
    assert result.noise_floor is not None
    assert result.hot_ratio > result.noise_floor
    assert result.cost is not None
    assert result.cost < 0.01


def test_eight_single_threads() -> None:
    """In an 8x1 server the shares are 10 to 17 %: chance explains a hot ratio of 1.36 for some hundred requests, not
    for thousands."""
    shares = (17, 15, 13, 12, 12, 11, 10, 10)
    for scale, chance in ((3, True), (20, False)):
        result = compute_balance(
            window(60, *(worker(worker_id, scale * share) for worker_id, share in enumerate(shares, 1)))
        )
        assert result.hot_ratio == pytest.approx(1.36)
        assert result.noise_floor is not None
        assert (result.hot_ratio < result.noise_floor) == chance
        assert result.fairness == pytest.approx(0.97, abs=0.01)


class TestNoiseFloor:
    @pytest.mark.parametrize(
        ("workers", "requests"), [(2, 100), (4, 100), (4, 1000), (8, 300), (16, 200), (32, 1000), (64, 300)]
    )
    def test_chance_stays_below(self, workers: int, requests: int) -> None:
        """With random assignment, requests exceed the floor in fewer than one window of a hundred."""
        rng = random.Random(workers * requests)
        floor, windows = noise_floor(workers, requests), 2000
        assert floor is not None
        largest = (max(Counter(rng.choices(range(workers), k=requests)).values()) for _ in range(windows))
        assert sum(workers * most / requests > floor for most in largest) < windows / 100

    @pytest.mark.parametrize(("workers", "requests"), [(4, 1000), (8, 2000)])
    def test_unevenness_exceeds_it(self, workers: int, requests: int) -> None:
        """A worker with one and a half times an even share exceeds the floor in nearly every window."""
        rng = random.Random(5)
        floor, windows = noise_floor(workers, requests), 200
        assert floor is not None
        odds = [1.5 / workers] + [(1 - 1.5 / workers) / (workers - 1)] * (workers - 1)
        result = (max(Counter(rng.choices(range(workers), odds, k=requests)).values()) for _ in range(windows))
        assert sum(workers * most / requests > floor for most in result) > 0.95 * windows

    def test_more_requests_lower_it(self) -> None:
        """With more requests the floor approaches 1, from above."""
        floors = [noise_floor(4, requests) or 0 for requests in (1, 10, 100, 10_000, 10**12)]
        assert floors == sorted(floors, reverse=True)
        assert floors[-1] == pytest.approx(1, abs=1e-4)
        assert floors[-1] > 1

    def test_needs_workers_and_requests(self) -> None:
        """Without workers or requests there is no floor; with one worker it is 1."""
        assert noise_floor(0, 10) is None
        assert noise_floor(4, 0) is None
        assert noise_floor(1, 10) == 1


class TestFairness:
    @given(st.lists(st.integers(0, 2**40), max_size=64))
    def test_bounds(self, counts: list[int]) -> None:
        """Jain's index is between 1/n and 1; without requests there is none."""
        index = fairness(counts)
        if not any(counts):
            assert index is None
        else:
            assert index is not None
            assert 1 / len(counts) - 1e-9 <= index <= 1 + 1e-9

    def test_ends_of_the_scale(self) -> None:
        """The index is 1 for equal counts, and 1/n if one worker takes everything."""
        assert fairness([7] * 5) == 1
        assert fairness([7, 0, 0, 0]) == 0.25


class TestActive:
    def test_nothing_served(self) -> None:
        """Without requests there are no shares, no ratio and no hottest worker."""
        result = compute_balance(window(60, worker(1, 0), worker(2, 0)))
        assert [worker.share for worker in result.workers] == [None, None]
        assert (result.hot_ratio, result.noise_floor, result.fairness, result.hottest, result.cost) == (None,) * 5

    def test_single_worker_is_even(self) -> None:
        """A single worker takes everything, which is its even share, and there is no calm half to compare with."""
        result = compute_balance(window(60, worker(1, 500, cpu=50.0)))
        assert (result.hot_ratio, result.fairness, result.cost) == (1, 1, None)

    def test_no_worker(self) -> None:
        """A server without known workers has no figures."""
        result = compute_balance(window(60))
        assert (result.workers, result.hot_ratio, result.fairness, result.hottest) == ((), None, None, None)

    def test_worker_down_for_most_of_the_window_does_not_count(self) -> None:
        """If cheaper ended two of four workers, the ratio is that of the other two, which are even."""
        result = compute_balance(
            window(60, worker(1, 100), worker(2, 100), worker(3, 20, up=10.0), worker(4, 20, up=10.0))
        )
        assert [worker.active for worker in result.workers] == [True, True, False, False]
        assert result.hot_ratio == 1
        assert result.fairness == 1
        assert result.even_share == pytest.approx(100 / 240)  # of all requests, as their shares are

    def test_ratio_of_the_active_is_never_below_one(self) -> None:
        """Workers that left during the window do not hide the hot worker among the others, however much they served."""
        result = compute_balance(
            window(60, worker(1, 90), worker(2, 10), worker(3, 450, up=29.0), worker(4, 450, up=29.0))
        )
        assert result.hot_ratio == pytest.approx(1.8)
        assert result.hottest is not None
        assert result.hottest.worker_id == 1

    def test_only_absent_workers_served(self) -> None:
        """If the present workers served nothing, there are shares, but no hottest worker."""
        result = compute_balance(window(60, worker(1, 0), worker(2, 50, up=1.0)))
        assert [worker.share for worker in result.workers] == [0, 1]
        assert (result.hot_ratio, result.hottest, result.noise_floor) == (None, None, None)

    def test_window_that_is_entirely_a_gap(self) -> None:
        """Without samples no worker is active; shares come from uWSGI's own counters and are known."""
        result = compute_balance(window(60, worker(1, 75, up=0.0), worker(2, 25, up=0.0), observed=0))
        assert [worker.share for worker in result.workers] == [0.75, 0.25]
        assert result.hot_ratio is None


class TestCost:
    def test_needs_enough_requests(self) -> None:
        """With too few requests in the calm half, response times are not compared."""
        for requests, known in ((ENOUGH_REQUESTS - 1, False), (ENOUGH_REQUESTS, True)):
            result = compute_balance(window(60, worker(1, 1000, each=0.5), worker(2, requests)))
            assert (result.cost is not None) == known

    def test_calm_workers_serve_less(self) -> None:
        """Calm workers are those with fewer requests, not with less CPU time: the cheaper requests are there by chance.
        No kernel facts are needed."""
        assert (
            compute_balance(window(60, worker(1, 1000, each=0.5), worker(2, 500, each=0.2))).calm_response_time == 0.2
        )
        result = compute_balance(window(60, worker(1, 1000, each=0.2, cpu=5.0), worker(2, 500, each=0.5, cpu=50.0)))
        assert result.calm_response_time == 0.5

    def test_is_never_negative(self) -> None:
        """If the calm half is the slower one, unevenness costs nothing."""
        assert compute_balance(window(60, worker(1, 600, each=0.1), worker(2, 400, each=0.3))).cost == 0

    def test_static_files_support_no_comparison(self) -> None:
        """Only requests with a response time count towards enough requests."""
        result = compute_balance(window(60, worker(1, 1000, each=0.5), worker(2, 999, static=960)))
        assert result.cost is None

    def test_worker_of_unknown_time(self) -> None:
        """A worker with an unknown running time does not shorten the mean, which would hide the cost."""
        rows = (worker(1, 700, each=0.4), worker(2, 400, each=0.2), worker(3, 300, each=None))
        assert compute_balance(window(60, *rows)).cost == pytest.approx(1 - 0.2 / (360 / 1100))
