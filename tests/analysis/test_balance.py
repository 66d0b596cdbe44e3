"""Shares, unevenness, chance and cost."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.judging import describe, figures_of
from tests.support.simulated_server import Server
from tests.support.windows import the_example, the_harmless_one, window, worker
from uwsgi_headroom.analysis.balance import ENOUGH_REQUESTS, compute_balance, compute_workers, noise_floor
from uwsgi_headroom.analysis.findings.evenness import even_out


def compare(window):
    """The figures of the workers of a window, and their balance."""
    workers = compute_workers(window)
    return workers, compute_balance(window, workers)


def test_one_hot_worker_of_four():
    """One worker takes 43 %, its interpreter is saturated, its requests take 0.67 s against 0.38 s, and balancing would
    save a quarter of the mean."""
    workers, result = compare(the_example())
    hot = workers[1]
    assert result.hottest == hot.worker_id
    assert result.hot_ratio == pytest.approx(1.72, abs=0.005)
    assert result.hot_ratio > result.noise_floor
    figures = (hot.share, hot.interpreter_load, hot.concurrency, hot.response_time, result.calm_response_time)
    assert figures == pytest.approx((0.43, 1.0, 8, 0.67, 0.38), abs=0.01)
    assert {round(worker.response_time or 0, 2) for worker in workers if worker is not hot} == {0.38}
    assert result.cost == pytest.approx(1 - 0.38 / 0.5, abs=0.02)


def test_more_processes_have_no_fewer_threads():
    """What evens workers out takes no thread away, also where each has an odd number of them."""
    assert "8x2 instead of 4x3" in even_out(figures_of(the_example(), describe(Server(processes=4, threads=3))))


def test_the_harmless_case():
    """Shares of 33/26/23/18 % are beyond chance, but the interpreters have room: the cost is nearly zero."""
    workers, result = compare(the_harmless_one())
    assert [round(worker.share or 0, 2) for worker in workers] == [0.33, 0.26, 0.23, 0.18]
    assert result.hot_ratio == pytest.approx(1.32)
    assert result.hot_ratio > result.noise_floor
    assert result.cost < 0.01


@pytest.mark.parametrize(("scale", "chance"), [(3, True), (20, False)])
def test_eight_single_threads(scale, chance):
    """In an 8x1 server the shares are 10 to 17 %: chance explains a hot ratio of 1.36 for some hundred requests, not
    for thousands."""
    shares = enumerate((17, 15, 13, 12, 12, 11, 10, 10), 1)
    _, result = compare(window(60, *(worker(number, scale * share) for number, share in shares)))
    assert (result.hot_ratio, result.fairness) == (pytest.approx(1.36), pytest.approx(0.97, abs=0.01))
    assert (result.hot_ratio < result.noise_floor) == chance


def find_largest(odds: list[float], requests: int, windows: int) -> list[float]:
    """The largest share of a worker over an even one, in windows whose requests go to workers with these odds."""
    rng, workers = random.Random(requests), range(len(odds))
    chosen = (rng.choices(workers, odds, k=requests) for _ in range(windows))
    return [len(odds) * max(Counter(each).values()) / requests for each in chosen]


@pytest.mark.parametrize(("workers", "requests"), [(2, 100), (4, 300), (16, 200), (64, 300)])
def test_chance_stays_below_the_floor(workers, requests):
    """With random assignment, requests exceed the floor in fewer than one window of a hundred."""
    floor = noise_floor(workers, requests)
    assert sum(largest > floor for largest in find_largest([1.0] * workers, requests, 1000)) < 10


@pytest.mark.parametrize(("workers", "requests"), [(4, 1000), (8, 2000)])
def test_unevenness_exceeds_the_floor(workers, requests):
    """A worker with one and a half times an even share exceeds the floor in nearly every window."""
    odds = [1.5, *[(workers - 1.5) / (workers - 1)] * (workers - 1)]
    found = find_largest(odds, requests, 100)
    assert sum(largest > noise_floor(workers, requests) for largest in found) > 95


def test_more_requests_lower_the_floor():
    """With more requests the floor approaches 1, from above; one worker has 1, and none, or no requests, has none."""
    floors = [noise_floor(4, requests) for requests in (1, 10, 100, 10_000, 10**12)]
    assert floors == sorted(floors, reverse=True)
    assert 1 < floors[-1] < 1 + 1e-4
    assert [noise_floor(*each) for each in ((0, 10), (4, 0), (1, 10))] == [None, None, 1]


@settings(max_examples=50)
@given(st.lists(st.integers(0, 2**40), max_size=64))
def test_fairness(counts):
    """Jain's index is between 1/n and 1, at the ends of which are the least and the most even; without requests there
    is none."""
    index = compare(window(60, *(worker(number, count) for number, count in enumerate(counts, 1))))[1].fairness
    assert (index is None) == (not any(counts))
    assert index is None or 1 / len(counts) - 1e-9 <= index <= 1 + 1e-9


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ((), {"active": 0, "hot_ratio": None, "fairness": None, "hottest": None}),
        ((worker(1, 0), worker(2, 0)), {"hot_ratio": None, "noise_floor": None, "fairness": None, "cost": None}),
        # A single worker takes everything, which is its even share: there is no calm half to compare with.
        ((worker(1, 500, cpu=50.0),), {"hot_ratio": 1, "fairness": 1, "cost": None}),
        ((worker(1, 7), *(worker(number, 0) for number in (2, 3, 4))), {"fairness": 0.25}),
        # If the present workers served nothing, there are shares, but no hottest worker.
        ((worker(1, 0), worker(2, 50, up=1.0)), {"hot_ratio": None, "hottest": None, "noise_floor": None}),
        ((worker(1, 75, up=0.0), worker(2, 25, up=0.0)), {"hot_ratio": None}),  # a gap
        # Calm workers are those with fewer requests, not with less CPU time: cheaper requests are there by chance.
        ((worker(1, 1000, each=0.5), worker(2, 500, each=0.2)), {"calm_response_time": 0.2}),
        ((worker(1, 1000, each=0.2, cpu=5.0), worker(2, 500, each=0.5, cpu=50.0)), {"calm_response_time": 0.5}),
        ((worker(1, 600, each=0.1), worker(2, 400, each=0.3)), {"cost": 0}),  # the calm half is the slower one
        # With too few requests that have a response time in the calm half, times are not compared.
        ((worker(1, 1000, each=0.5), worker(2, ENOUGH_REQUESTS - 1)), {"cost": None}),
        ((worker(1, 1000, each=0.5), worker(2, ENOUGH_REQUESTS)), {"cost": pytest.approx(0.776, abs=0.01)}),
        ((worker(1, 1000, each=0.5), worker(2, 999, static=960)), {"cost": None}),
        # A worker with an unknown running time does not shorten the mean, which would hide the cost.
        (
            (worker(1, 700, each=0.4), worker(2, 400, each=0.2), worker(3, 300, each=None)),
            {"cost": pytest.approx(1 - 0.2 / (360 / 1100))},
        ),
    ],
)
def test_what_is_known_of_few_workers(workers, expected):
    """What cannot be compared has no figure."""
    _, result = compare(window(60, *workers))
    assert {name: getattr(result, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("workers", "shares"),
    [
        ((worker(1, 0), worker(2, 0)), [None, None]),
        ((worker(1, 0), worker(2, 50, up=1.0)), [0, 1]),
        ((worker(1, 75, up=0.0), worker(2, 25, up=0.0)), [0.75, 0.25]),  # by uWSGI's own counters
    ],
)
def test_shares(workers, shares):
    """They are of all requests, also of those of workers that are away."""
    assert [each.share for each in compute_workers(window(60, *workers))] == shares


def test_worker_down_for_most_of_the_window_does_not_count():
    """If cheaper ended two of four workers, the ratio is that of the other two, which are even."""
    workers, result = compare(window(60, worker(1, 100), worker(2, 100), *(worker(n, 20, up=10.0) for n in (3, 4))))
    assert [worker.active for worker in workers] == [True, True, False, False]
    assert (result.hot_ratio, result.fairness) == (1, 1)
    assert result.even_share == pytest.approx(100 / 240)  # of all requests, as their shares are


def test_ratio_of_the_active_is_never_below_one():
    """Workers that left during the window do not hide the hot worker among the others, however much they served."""
    _, result = compare(window(60, worker(1, 90), worker(2, 10), *(worker(n, 450, up=29.0) for n in (3, 4))))
    assert (result.hot_ratio, result.hottest) == (pytest.approx(1.8), 1)
