"""Throughput and response time against concurrency, in bins."""

from __future__ import annotations

import numpy as np
import pytest

from uwsgi_headroom.report.statistics.curve import round_width, throughput_curve


def test_bins_with_counts_and_means() -> None:
    """Each quarter is in the bin of its concurrency; response time is weighted by requests."""
    concurrency = np.array([0.5, 1.5, 1.7, 3.9])
    curve = throughput_curve(concurrency, np.array([5.0, 10.0, 30.0, 20.0]), np.array([0.1, 0.2, 0.4, 0.3]), bins=4)
    assert curve.low.tolist() == [0.0, 1.0, 3.0]
    assert curve.high.tolist() == [1.0, 2.0, 4.0]
    assert curve.counts.tolist() == [1, 2, 1]
    assert curve.concurrency == pytest.approx([0.5, 1.6, 3.9])
    assert curve.throughput == pytest.approx([5.0, 20.0, 20.0])
    assert curve.throughput_low == pytest.approx([5.0, 12.0, 20.0])
    assert curve.throughput_high == pytest.approx([5.0, 28.0, 20.0])
    assert curve.response_time == pytest.approx([0.1, (10 * 0.2 + 30 * 0.4) / 40, 0.3])


def test_littles_law_holds_in_each_bin() -> None:
    """Where N = X R holds in each quarter, it holds for the means of each bin."""
    random = np.random.default_rng(1)
    throughput, response_time = random.uniform(1, 50, 2000), random.uniform(0.1, 0.3, 2000)
    curve = throughput_curve(throughput * response_time, throughput, response_time)
    assert curve.concurrency == pytest.approx(curve.throughput * curve.response_time)
    assert curve.counts.sum() == 2000
    assert len(curve.counts) <= 20


def test_weights() -> None:
    """A quarter sampled for a third counts a third; one that was not sampled is left out."""
    curve = throughput_curve(
        np.array([1.0, 1.0, 1.0]), np.array([10.0, 20.0, 99.0]), np.full(3, 0.1), np.array([0.25, 0.75, 0.0]), 1
    )
    assert curve.counts.tolist() == [2]
    assert curve.throughput == pytest.approx([17.5])


def test_unknown_quarters_are_left_out() -> None:
    """nan, infinity, zero and negative values have no place on the curve; an unknown response time leaves the rest."""
    bad = [np.nan, np.inf, 0.0, -1.0]
    curve = throughput_curve(
        np.array([*bad, 2.0, 2.0, 2.0]), np.array([5.0] * 4 + [np.nan, 6.0, 8.0]), np.array([0.1] * 6 + [np.nan])
    )
    assert curve.counts.tolist() == [2]
    assert curve.throughput.tolist() == [7.0]
    assert curve.response_time == pytest.approx([0.1])
    unknown = throughput_curve(np.ones(2), np.ones(2), np.full(2, np.nan))
    assert np.isnan(unknown.response_time).all()


def test_no_data_is_an_empty_curve() -> None:
    """No quarters, or none with load."""
    for column in (np.empty(0), np.zeros(10), np.full(10, np.nan)):
        curve = throughput_curve(column, column, column)
        assert len(curve.low) == len(curve.counts) == len(curve.response_time) == 0


@pytest.mark.parametrize(("greatest", "width"), [(0.03, 0.002), (19.0, 1.0), (20.0, 2.0), (83.0, 5.0), (1e6, 1e5)])
def test_edges_are_round(greatest: float, width: float) -> None:
    """The greatest value is below the last edge of twenty bins."""
    assert round_width(greatest, 20) == pytest.approx(width)


def test_columns_of_different_lengths_are_refused() -> None:
    """ValueError."""
    with pytest.raises(ValueError, match="lengths"):
        throughput_curve(np.ones(3), np.ones(2), np.ones(3))
