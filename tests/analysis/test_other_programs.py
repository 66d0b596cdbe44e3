"""Whether the CPU use of others grows with the requests, from slices with known true figures."""

from __future__ import annotations

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


def test_proxy_on_the_same_host_follows() -> None:
    """A fixed part and a part per request, with noise, grows with the load."""
    rng = random.Random(2)
    assert follow_requests([(rate, 0.1 + 0.004 * rate + rng.gauss(0, 0.05)) for rate in bursty()]) is True


def test_batch_job_does_not_follow() -> None:
    """CPU use that is independent of the load does not follow."""
    rng = random.Random(3)
    assert follow_requests([(rate, 1.9 + rng.gauss(0, 0.05)) for rate in bursty()]) is False


def test_small_effect_does_not_count() -> None:
    """A batch job beside a small proxy: most of the CPU use does not grow, however certain the connection is."""
    follows = [(rate, 0.002 * rate) for rate in bursty()]
    stays = 0.2 * (1 / LEAST_EFFECT - 1)  # beside a mean of 0.2 CPUs that follow
    assert follow_requests([(rate, others + 0.9 * stays) for rate, others in follows]) is True
    assert follow_requests([(rate, others + 1.1 * stays) for rate, others in follows]) is False


def test_others_that_yield_do_not_follow() -> None:
    """On a saturated machine other programs get less CPU when the server gets more."""
    assert follow_requests([(rate, 2 - 0.01 * rate) for rate in bursty()]) is False


def test_common_drift_shows_nothing() -> None:
    """Two series that grow steadily correlate perfectly without any connection, so the correlation is not evidence."""
    assert follow_requests([(50.0 + minute, 0.5 + 0.01 * minute) for minute in range(60)]) is None


@pytest.mark.parametrize("pairs", [[], [(0.0, 1.0)] * 60, [(100.0, 1.0)] * 60])
def test_steady_load_shows_nothing(pairs: Pairs) -> None:
    """Neither an idle server nor one with a constant load shows a connection."""
    assert follow_requests(pairs) is None


def test_few_slices_show_nothing() -> None:
    """At least twenty minutes are needed."""
    pairs = [(rate, 0.01 * rate) for rate in bursty(LEAST_SLICES)]
    assert follow_requests(pairs) is True
    assert follow_requests(pairs[1:]) is None


def test_chance_is_rare() -> None:
    """For jobs that start and stop independently, hardly any server is found to have followers."""
    rng = random.Random(4)
    followers = sum(
        follow_requests([(rate, rng.uniform(0, 2)) for rate in bursty(20, seed)]) is True for seed in range(1000)
    )
    assert followers <= 10


rates = st.floats(0, 1e6)


@given(st.lists(st.tuples(rates, rates), max_size=60), st.floats(0.01, 100), st.floats(0.01, 100))
def test_any_figures_have_an_answer(pairs: Pairs, scale: float, other_scale: float) -> None:
    """Any measured figures have an answer, and constant others never follow."""
    assert follow_requests(pairs) in (None, True, False)
    assert follow_requests([(rate * scale, other_scale) for rate, _ in pairs]) is not True


@given(st.integers(0, 1000), st.floats(0.001, 10), st.floats(0.001, 10))
def test_followers_follow_at_any_scale(seed: int, scale: float, cost: float) -> None:
    """A fixed CPU cost of others per request is found at any rate."""
    assert follow_requests([(rate * scale, rate * cost) for rate in bursty(30, seed)]) is True


def test_shares_are_means_over_the_time_measured() -> None:
    """Shares are CPU seconds over measured seconds; only those of others may be unknown."""
    assert compute_shares(window(60.0, cpu=(0.5, 0.25, 1.25)).cpu) == CpuShares(0.5, 0.25, 1.25)
    assert compute_shares(window(60.0, cpu=(0.5, 0.25, None)).cpu) == CpuShares(0.5, 0.25, None)
    assert compute_shares(None) is None


def test_slice_that_samples_hardly_cover_is_left_out() -> None:
    """A slice with an outage is not used, nor is one without kernel facts."""
    one = worker(1, 120)
    assert extract_pair(window(60.0, one, cpu=(0.5, 0.5, 1.0))) == (2.0, 1.0)
    assert extract_pair(window(60.0, one, cpu=(0.5, 0.5, 1.0), observed=20.0)) is None
    assert extract_pair(window(60.0, one, cpu=(0.5, 0.5, None))) is None
    assert extract_pair(window(60.0, one)) is None
