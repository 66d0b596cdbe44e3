"""The back-test: the last quarter of the range, from the first three."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.report.statistics.series import MONDAY, flat, line, peaks_of, series, step, without
from uwsgi_headroom.report.statistics import Refusal
from uwsgi_headroom.report.statistics.forecast import BackTest, back_test
from uwsgi_headroom.report.statistics.peaks import DailyPeaks


def result_of(peaks: DailyPeaks) -> BackTest:
    result = back_test(peaks)
    assert isinstance(result, BackTest), result
    return result


def test_without_noise_there_is_no_error() -> None:
    """A weekly pattern alone is forecast exactly, also by last week's peaks."""
    result = result_of(series(flat, 80, noise=0.0))
    assert (result.days - MONDAY).tolist() == list(range(60, 80))
    assert (result.error, result.naive_error, result.bias) == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)
    assert (result.inside, result.changed, result.fitted_days) == (1.0, False, 60)


def test_growth_is_forecast_better_than_last_week_has_it() -> None:
    """Over 12 series: an error near that of the noise alone, 4 %, and well below the naive forecast's."""
    results = [result_of(series(line(1.0), 120, seed=seed)) for seed in range(12)]
    assert np.mean([result.error for result in results]) == pytest.approx(0.042, abs=0.01)
    assert np.mean([result.naive_error for result in results]) > 0.08
    assert 0.82 <= np.mean([result.inside for result in results]) <= 0.97
    assert abs(np.mean([result.bias for result in results])) < 0.01


def test_the_figures_are_those_of_the_arrays() -> None:
    """error, bias and inside can be computed again from what is shown."""
    result = result_of(series(line(1.0), 120, noise=0.15))
    misses = (result.expected - result.actual) / result.actual
    assert result.error == pytest.approx(np.abs(misses).mean())
    assert result.bias == pytest.approx(misses.mean())
    assert result.inside == np.mean((result.lower <= result.actual) & (result.actual <= result.upper))
    assert result.naive_error == pytest.approx(np.mean(np.abs(result.naive - result.actual) / result.actual))


def test_a_step_in_the_last_quarter_is_named() -> None:
    """No forecast can know it: the error is large and `changed` says why."""
    result = result_of(series(step(75, 1.5), 100))
    assert result.changed
    assert result.error > 0.25
    assert not result_of(series(step(30, 1.5), 100)).changed


def test_the_last_quarter_is_not_used_for_the_forecast() -> None:
    """Other values there change what is compared, not what was expected."""
    peaks = series(line(1.0), 120)
    other = replace(peaks, peaks=np.where(np.arange(120) >= 90, 3.0, peaks.peaks))
    assert np.array_equal(result_of(other).expected, result_of(peaks).expected)


def test_naive_is_the_last_known_peak_of_the_same_weekday() -> None:
    """A missing day falls back on the week before."""
    peaks = series(flat, 80)
    whole, gap = result_of(peaks), result_of(without(peaks, np.array([57])))
    assert whole.naive[:7].tolist() == peaks.peaks[53:60].tolist()
    assert gap.naive[4] == peaks.peaks[50]
    assert whole.naive[7:14].tolist() == whole.naive[:7].tolist()


def test_days_without_load_are_not_compared() -> None:
    """A peak of 0 has no relative error."""
    peaks = series(flat, 80)
    values = peaks.peaks.copy()
    values[65] = 0.0
    result = result_of(peaks_of(peaks.days, values))
    assert MONDAY + 65 not in result.days
    assert np.isfinite(result.error)


@pytest.mark.parametrize("days", [0, 1, 27])
def test_too_short_a_range_is_refused(days: int) -> None:
    """Three quarters of the range must suffice for a forecast."""
    result = back_test(series(flat, days) if days else peaks_of(np.empty(0, np.int64), np.empty(0)))
    assert isinstance(result, Refusal)
    assert result.reason


def test_all_zero_is_refused() -> None:
    """There is nothing to compare."""
    result = back_test(peaks_of(MONDAY + np.arange(80), np.zeros(80)))
    assert isinstance(result, Refusal)
    assert "no daily peaks" in result.reason
