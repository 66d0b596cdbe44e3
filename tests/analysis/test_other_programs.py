"""Whether the CPU use of others grows with the requests, from slices with known true figures."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.windows import window, worker
from uwsgi_headroom.analysis.capacity import (
    LEAST_EFFECT,
    LEAST_SLICES,
    CpuShares,
    compute_shares,
    extract_pair,
    follow_requests,
)

Pairs = list[tuple[float, float]]


def bursty(count: int = 60, seed: int = 1) -> list[float]:
    """Requests per second, by minute."""
    rng = random.Random(seed)
    return [rng.uniform(50, 150) for _ in range(count)]


def noisy(fixed: float, each: float = 0.0, spread: float = 0.0, count: int = 60) -> Pairs:
    """Requests per second and CPUs of others: a fixed part and a part per request, with noise."""
    rng = random.Random(2)
    return [(rate, fixed + each * rate + rng.gauss(0, spread)) for rate in bursty(count)]


STAYS = 0.2 * (1 / LEAST_EFFECT - 1)
"""CPUs of a batch job beside a mean of 0.2 that follow the load: as many as may be beside those."""


@pytest.mark.parametrize(
    ("pairs", "follows"),
    [
        (noisy(0.1, 0.004, 0.05), True),  # a proxy on the same host
        (noisy(1.9, spread=0.05), False),
        (noisy(0.9 * STAYS, 0.002), True),
        (noisy(1.1 * STAYS, 0.002), False),  # most of the CPU use does not grow
        (noisy(2.0, -0.01), False),  # on a saturated machine others get less when the server gets more
        # Two series that grow steadily correlate perfectly without any connection.
        ([(50.0 + minute, 0.5 + 0.01 * minute) for minute in range(60)], None),
        ([], None),
        ([(0.0, 1.0)] * 60, None),
        ([(100.0, 1.0)] * 60, None),
        (noisy(0.0, 0.01, count=LEAST_SLICES), True),
        (noisy(0.0, 0.01, count=LEAST_SLICES)[1:], None),  # at least twenty minutes are needed
    ],
)
def test_who_follows(pairs, follows):
    """CPU use that grows with the load does, and from a steady load nothing is concluded."""
    assert follow_requests(pairs) is follows


def test_chance_is_rare():
    """For jobs that start and stop independently, hardly any server is found to have followers."""
    rng = random.Random(4)
    followers = sum(
        follow_requests([(rate, rng.uniform(0, 2)) for rate in bursty(20, seed)]) is True for seed in range(300)
    )
    assert followers <= 3


@given(st.integers(0, 1000), st.floats(0.001, 10), st.floats(0.001, 10))
def test_followers_follow_at_any_scale(seed, scale, cost):
    """A fixed CPU cost of others per request is found at any rate."""
    assert follow_requests([(rate * scale, rate * cost) for rate in bursty(30, seed)]) is True


def test_shares_are_means_over_the_time_measured():
    """Shares are CPU seconds over measured seconds; only those of others may be unknown."""
    assert compute_shares(window(60.0, cpu=(0.5, 0.25, 1.25)).cpu) == CpuShares(0.5, 0.25, 1.25)
    assert compute_shares(window(60.0, cpu=(0.5, 0.25, None)).cpu) == CpuShares(0.5, 0.25, None)
    assert compute_shares(None) is None


def test_slice_that_samples_hardly_cover_is_left_out():
    """A slice with an outage is not used, nor is one without kernel facts."""
    one = worker(1, 120)
    assert extract_pair(window(60.0, one, cpu=(0.5, 0.5, 1.0))) == (2.0, 1.0)
    assert extract_pair(window(60.0, one, cpu=(0.5, 0.5, 1.0), observed=20.0)) is None
    assert extract_pair(window(60.0, one, cpu=(0.5, 0.5, None))) is None
    assert extract_pair(window(60.0, one)) is None
