"""Pooled percentiles from buckets and the quarters' own percentiles."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from uwsgi_headroom.report.statistics.distribution import pool_percentiles

BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, math.inf)
SHARES = (0.5, 0.9, 0.95, 0.99)


def requests(seed: int, quarters: int = 60) -> list[NDArray]:
    """Response times of each quarter: lognormal, slower and more by day."""
    random = np.random.default_rng(seed)
    load = 1 + np.sin(np.arange(quarters) / 10) ** 2
    return [random.lognormal(np.log(0.12 * level), 0.8, int(400 * level)) for level in load]


def buckets(quarters: list[NDArray]) -> list[NDArray]:
    edges = np.array([0.0, *BOUNDS])
    return list(np.array([np.histogram(times, edges)[0] for times in quarters], dtype=float).T)


def own(quarters: list[NDArray]) -> list[NDArray]:
    return list(np.array([np.quantile(times, SHARES) for times in quarters]).T)


def test_percentiles_of_all_requests():
    """Within 5 % of the exact ones, the 99th within 12 %; from buckets within 35 %."""
    for seed in range(5):
        quarters = requests(seed)
        exact = np.quantile(np.concatenate(quarters), SHARES)
        misses = np.abs(pool_percentiles(BOUNDS, buckets(quarters), own(quarters)) / exact - 1)
        assert np.all(misses < [0.05, 0.05, 0.05, 0.12])
        assert np.all(np.abs(pool_percentiles(BOUNDS, buckets(quarters)) / exact - 1) < 0.35)


def test_own_percentiles_improve_buckets():
    """The error is smaller with them, for each percentile on average over five series."""
    errors = np.zeros((2, 4))
    for seed in range(5):
        quarters = requests(seed)
        exact = np.quantile(np.concatenate(quarters), SHARES)
        for place, known in enumerate(([], own(quarters))):
            errors[place] += np.abs(pool_percentiles(BOUNDS, buckets(quarters), known) / exact - 1)
    assert np.all(errors[1] < errors[0])


def test_one_quarter_has_its_own_percentiles():
    """Pooling one quarter returns what it says."""
    counts = [np.array([60.0]), np.array([40.0])]
    known = [np.array([value]) for value in (0.4, 1.7, 1.8, 1.95)]
    assert pool_percentiles((1.0, 2.0), counts, known) == pytest.approx((0.4, 1.7, 1.8, 1.95))


def test_values_within_a_bucket():
    """Ten requests up to 1 s and ten up to 2 s: linear from 0, then by the logarithm."""
    counts = [np.array([10.0]), np.array([10.0])]
    found = pool_percentiles((1.0, 2.0), counts, wanted=(0.25, 0.5, 0.75, 1.0))
    assert found == pytest.approx((0.5, 1.0, math.sqrt(2), 2.0))


def test_quarters_count_by_their_requests():
    """A busy fast quarter outweighs an idle slow one, whose percentile a mean of percentiles would show."""
    counts = [np.array([990.0, 0.0]), np.array([0.0, 10.0])]
    assert pool_percentiles((1.0, 9.0), counts, wanted=(0.5,))[0] == pytest.approx(0.505, abs=0.001)


def test_above_the_last_finite_knot():
    """What is only known to be above the last bound is inf, unless the quarter knows its own percentile."""
    counts = [np.array([90.0]), np.array([10.0])]
    assert pool_percentiles((1.0, math.inf), counts, wanted=(0.9, 0.95)) == (1.0, math.inf)
    known = [np.array([0.5]), np.array([1.0]), np.array([70.0]), np.array([90.0])]
    assert pool_percentiles((1.0, math.inf), counts, known, wanted=(0.95, 0.99)) == pytest.approx((70.0, 90.0))


def test_unknown_and_empty_quarters_are_left_out():
    """nan, negative and idle quarters have no requests; nan percentiles leave the buckets."""
    counts = [np.array([10.0, np.nan, -5.0, 0.0]), np.array([10.0, 3.0, 3.0, 0.0])]
    known = [np.full(4, np.nan)] * 4
    assert pool_percentiles((1.0, 2.0), counts, known, wanted=(0.75,)) == pytest.approx((math.sqrt(2),))
    for empty in ([], [np.empty(0), np.empty(0)], [np.full(3, np.nan), np.zeros(3)]):
        assert all(math.isnan(value) for value in pool_percentiles((1.0, 2.0)[: len(empty)], empty))


def test_contradictions_keep_the_order():
    """A percentile on the wrong side of its bucket gives results that still rise."""
    counts = [np.array([99.0]), np.array([1.0])]
    known = [np.array([1.5]), np.array([1.2]), np.array([0.1]), np.array([0.05])]
    found = pool_percentiles((1.0, 2.0), counts, known)
    assert list(found) == sorted(found)
    assert all(0 < value <= 2.0 for value in found)


@pytest.mark.parametrize(
    ("bounds", "counts", "known", "reason"),
    [
        ((1.0, 1.0), [np.ones(1)] * 2, [], "increasing"),
        ((2.0, 1.0), [np.ones(1)] * 2, [], "increasing"),
        ((0.0, 1.0), [np.ones(1)] * 2, [], "positive"),
        ((1.0,), [np.ones(1)] * 2, [], "1 bounds, but 2 columns"),
        ((1.0, 2.0), [np.ones(1), np.ones(2)], [], "lengths"),
        ((1.0, 2.0), [np.ones(1)] * 2, [np.ones(1)] * 3, "3 columns of percentiles"),
    ],
)
def test_bad_columns_are_refused(bounds, counts, known, reason):
    """ValueError with the reason."""
    with pytest.raises(ValueError, match=reason):
        pool_percentiles(bounds, counts, known)
