"""The weekly pattern of daily peaks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.report.statistics.series import MONDAY, WEEK, flat, line, scaled, series, step, without
from uwsgi_headroom.report.statistics.peaks import DailyPeaks, median_around, weekly_pattern

TRUE = WEEK / WEEK.mean()


@pytest.mark.parametrize(
    ("peaks", "tolerance"),
    [
        (series(flat, 90, noise=0.0), 1e-9),
        (series(flat, 90), 0.05),
        (series(line(1.0), 90), 0.05),
        (series(step(30, 1.6), 90), 0.05),
        (scaled(series(flat, 90), slice(40, 50), 0.4), 0.05),
        (without(series(flat, 90), np.arange(10, 30)), 0.05),
    ],
    ids=["exact", "noise", "growth", "step", "holidays", "missing days"],
)
def test_the_factor_of_each_day_of_the_week(peaks: DailyPeaks, tolerance: float) -> None:
    """Steps, growth, holidays and gaps do not move the pattern by more than noise does."""
    pattern = weekly_pattern(peaks.days, peaks.peaks)
    assert pattern.detail == "weekday"
    assert pattern.factors == pytest.approx(TRUE, rel=tolerance)
    assert pattern.factors.mean() == pytest.approx(1.0)
    assert pattern.of(np.array([MONDAY, MONDAY + 6])) == pytest.approx(pattern.factors[[0, 6]])


@pytest.mark.parametrize(
    ("days", "detail"), [(1, "none"), (10, "none"), (14, "weekend"), (27, "weekend"), (28, "weekday")]
)
def test_detail_grows_with_history(days: int, detail: str) -> None:
    """Two weeks separate the weekend from the week; four weeks separate the days."""
    peaks = series(flat, days)
    pattern = weekly_pattern(peaks.days, peaks.peaks)
    assert pattern.detail == detail
    weekend = TRUE[5:].mean() / TRUE[:5].mean()
    ratio = pattern.factors[5:].mean() / pattern.factors[:5].mean()
    assert ratio == pytest.approx(1.0 if detail == "none" else weekend, rel=0.05)


@pytest.mark.parametrize("level", [0.0, 5.0])
def test_a_constant_has_no_pattern(level: float) -> None:
    """All factors of a constant are 1, also of zero."""
    pattern = weekly_pattern(MONDAY + np.arange(60), np.full(60, level))
    assert pattern.factors.tolist() == [1.0] * 7


def test_weekends_without_load() -> None:
    """A factor is never 0, so that a level can be divided by it."""
    peaks = series(flat, 60, week=np.array([1.0, 1, 1, 1, 1, 0, 0]))
    factors = weekly_pattern(peaks.days, peaks.peaks).factors
    assert factors[:5] == pytest.approx(np.full(5, 1.4), rel=0.05)
    assert np.all(factors[5:] > 0)
    assert np.all(factors[5:] < 0.02)


def test_the_median_around_a_day_moves_inwards_at_the_ends() -> None:
    """Each window has seven days; missing days are nan where too few are known."""
    days = MONDAY + np.array([0, 1, 2, 3, 4, 5, 6, 20])
    around = median_around(days, np.array([1.0, 2, 3, 4, 5, 6, 7, 9]), 3, least=5)
    assert around[:4].tolist() == [4.0, 4.0, 4.0, 4.0]
    assert np.isnan(around[-1])
    assert len(median_around(days[:0], np.empty(0), 3)) == 0
