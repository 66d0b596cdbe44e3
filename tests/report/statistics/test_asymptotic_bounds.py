"""Bounds of throughput and response time (Denning and Buzen)."""

from __future__ import annotations

import numpy as np
import pytest

from uwsgi_headroom.report.statistics import Refusal
from uwsgi_headroom.report.statistics.curve import asymptotic_bounds, base_response_time


def test_both_bounds_and_their_knee() -> None:
    """With R0 = 0.4 s and Dmax = 0.05 s, 20 requests per second are the most, from 8 in service on."""
    bounds = asymptotic_bounds(np.array([1.0, 8.0, 16.0]), 0.4, 0.05)
    assert bounds.throughput == pytest.approx([2.5, 20.0, 20.0])
    assert bounds.response_time == pytest.approx([0.4, 0.4, 0.8])
    assert bounds.knee == pytest.approx(8.0)


def test_a_queue_never_beats_its_bounds() -> None:
    """Exact Mean Value Analysis of two queues is within the bounds at each population, and close far from the knee."""
    demands, population = np.array([0.1, 0.3]), np.arange(1, 41)
    lengths, throughput = np.zeros(2), []
    for number in population:
        residence = demands * (1 + lengths)
        throughput.append(number / residence.sum())
        lengths = throughput[-1] * residence
    bounds = asymptotic_bounds(population.astype(float), 0.4, 0.3)
    assert np.all(throughput <= bounds.throughput + 1e-12)
    assert np.all(population / np.array(throughput) >= bounds.response_time - 1e-12)
    assert [throughput[0], throughput[-1]] == pytest.approx([bounds.throughput[0], bounds.throughput[-1]], rel=0.001)


def test_without_a_known_bottleneck_only_low_load_bounds() -> None:
    """N / R0 and R0 remain; the knee is unknown."""
    bounds = asymptotic_bounds(np.array([1.0, 100.0]), 0.5)
    assert bounds.throughput.tolist() == [2.0, 200.0]
    assert bounds.response_time.tolist() == [0.5, 0.5]
    assert np.isnan(bounds.knee)


@pytest.mark.parametrize(("base", "demand"), [(0.0, 0.1), (-1.0, None), (float("nan"), 0.1), (0.1, 0.0), (0.1, -1.0)])
def test_times_are_positive(base: float, demand: float | None) -> None:
    """ValueError otherwise."""
    with pytest.raises(ValueError, match="seconds"):
        asymptotic_bounds(np.ones(1), base, demand)


def test_the_response_time_at_low_load() -> None:
    """Of the tenth of the quarters with the lowest concurrency, weighted by requests; unknown ones do not count."""
    concurrency = np.arange(1.0, 31.0)
    response_time, throughput = np.full(30, 9.0), np.ones(30)
    response_time[:3], throughput[:3] = (0.1, 0.2, 0.3), (2.0, 1.0, 1.0)
    assert base_response_time(concurrency, response_time, throughput) == pytest.approx(0.7 / 4)
    response_time[0] = np.nan
    assert base_response_time(concurrency, response_time, throughput) == pytest.approx((0.2 + 0.3 + 9.0) / 3)


@pytest.mark.parametrize("known", [0, 19])
def test_too_few_quarters(known: int) -> None:
    """The refusal names both numbers."""
    column = np.where(np.arange(40) < known, 1.0, np.nan)
    refusal = base_response_time(column, column, column)
    assert isinstance(refusal, Refusal)
    assert "20 quarters" in refusal.reason
    assert f"not {known}" in refusal.reason
