"""Forecasts of daily peaks against known futures."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.report.statistics.series import MONDAY, WEEK, flat, line, peaks_of, scaled, series, without
from uwsgi_headroom.report.statistics.peaks import DailyPeaks
from uwsgi_headroom.report.statistics.trend import Forecast, forecast_peaks

Level = Callable[[np.ndarray], np.ndarray]
SEEDS = range(12)
FAR = 1e6


def forecast(peaks: DailyPeaks, limit: float = FAR) -> Forecast:
    result = forecast_peaks(peaks, limit)
    assert isinstance(result, Forecast), result
    return result


@pytest.mark.parametrize(
    ("level", "change", "per_month"),
    [
        (line(1.0), slice(0), 30 / 189),
        (line(-0.5), slice(0), -15 / 55.5),
        (line(1.0), slice(30, 38), 30 / 189),
    ],
    ids=["growth", "decline", "holiday"],
)
def test_the_slope(level, change, per_month):
    """Growth in 30 days as a share of the last level, within 0.03 on average and inside its interval in 10 of 12."""
    found = [forecast(scaled(series(level, 90, seed=seed), change, 0.4)) for seed in SEEDS]
    assert np.mean([each.per_month for each in found]) == pytest.approx(per_month, abs=0.03)
    assert sum(each.per_month_low <= per_month <= each.per_month_high for each in found) >= 10
    assert {each.direction for each in found} == {"growth" if per_month > 0 else "decline"}


@pytest.mark.parametrize("week", [WEEK, np.ones(7)], ids=["weekly pattern only", "flat"])
def test_no_growth_is_reported_where_there_is_none(week):
    """In at least 11 of 12 flat series, and the expected peaks then differ by day of the week alone."""
    found = [forecast(series(flat, 90, seed=seed, week=week)) for seed in SEEDS]
    still = [each for each in found if each.direction == "none"]
    assert len(still) >= 11
    for each in still:
        assert each.expected[:7] == pytest.approx(each.expected[70:77])
        assert each.expected[:14].mean() == pytest.approx(100.0, rel=0.03)
        assert each.per_month_low < 0 < each.per_month_high


@pytest.mark.parametrize(
    ("level", "days", "settings"),
    [
        (flat, 28, {}),
        (flat, 90, {"noise": 0.15}),
        (flat, 90, {"correlation": 0.4}),
        (line(1.0), 90, {}),
        (line(-0.4), 90, {}),
    ],
    ids=["four weeks", "noise", "correlated noise", "growth", "decline"],
)
def test_the_interval_contains_about_nine_of_ten_peaks(level, days, settings):
    """Over 12 series and as many days ahead as there is history, 82 to 97 % are inside (90 % are aimed at)."""
    inside = []
    for seed in SEEDS:
        whole = series(level, 2 * days, seed=seed, **settings)
        found = forecast(peaks_of(whole.days[:days], whole.peaks[:days]))
        actual = whole.peaks[days : days + found.horizon_days]
        inside.append(np.mean((found.lower <= actual) & (actual <= found.upper)))
    assert 0.82 <= np.mean(inside) <= 0.97


def test_the_day_on_which_a_limit_is_reached():
    """The expected day is within eight days of the true one on average; the interval contains it in 11 of 12."""
    errors, inside = [], 0
    truth = line(1.0)(np.arange(180)) * np.resize(WEEK / WEEK.mean(), 180)
    day = MONDAY + int(np.flatnonzero(truth >= 250.0)[0])
    for seed in SEEDS:
        found = forecast(series(line(1.0), 90, seed=seed), 250.0)
        assert found.crossing is not None
        assert found.earliest is not None
        assert found.earliest <= found.crossing
        assert found.latest is None or found.crossing <= found.latest
        errors.append(found.crossing - day)
        inside += found.earliest <= day and (found.latest is None or day <= found.latest)
    assert np.mean(np.abs(errors)) <= 8
    assert inside >= 11


def test_no_crossing_within_the_horizon():
    """A distant limit is not reached; the forecast says how far ahead it looks."""
    found = forecast(series(line(1.0), 90))
    assert (found.crossing, found.earliest, found.latest, found.reached) == (None, None, None, False)
    assert found.horizon_days == 90


def test_a_limit_that_is_already_reached():
    """A peak of the last week at the limit is reported, without a date ahead."""
    peaks = series(flat, 60, noise=0.0)
    found = forecast(peaks, float(peaks.peaks.max()))
    assert (found.reached, found.crossing) == (True, None)
    assert not forecast(peaks, float(peaks.peaks.max()) * 1.001).reached


def test_a_flood_long_ago_is_no_limit_reached():
    """Only the last seven days count."""
    found = forecast(scaled(series(flat, 60), slice(20, 21), 9.0), 500.0)
    assert (found.reached, found.crossing, found.earliest) == (False, None, None)


@pytest.mark.parametrize("days", [0, 1, 20])
def test_too_little_history_is_refused(days):
    """The refusal says how many days are needed and how many there are."""
    refusal = forecast_peaks(series(flat, days) if days else peaks_of(np.empty(0, np.int64), np.empty(0)), FAR)
    assert refusal == f"A forecast needs 21 days of daily peaks, and this range has {days}."


def test_three_weeks_are_enough():
    """The forecast then reaches three weeks ahead, and says why no further."""
    found = forecast(series(flat, 21))
    assert (found.horizon_days, len(found.days), found.days[0]) == (21, 21, MONDAY + 21)
    assert any("21 days" in note for note in found.notes)


def test_too_many_gaps_are_refused():
    """Thirteen known days of thirty."""
    refusal = forecast_peaks(without(series(flat, 30), np.arange(2, 19)), FAR)
    assert refusal == "A forecast needs 14 days with a known peak, and 30 days have 13."


def test_missing_days_leave_no_trace():
    """The forecast with two weeks missing is that without them, within 3 %."""
    whole = series(line(1.0), 90)
    gaps = without(whole, np.r_[20:34, 50:53])
    assert forecast(gaps).expected == pytest.approx(forecast(whole).expected, rel=0.03)


def test_an_unusual_last_day_moves_nothing():
    """A last day of three times the usual leaves the expected level."""
    found = forecast(scaled(series(flat, 60), slice(59, 60), 3.0))
    assert found.expected[:7].mean() == pytest.approx(100.0, rel=0.05)


@pytest.mark.parametrize("level", [0.0, 7.0])
def test_constants_stay(level):
    """Zero and a constant are forecast as they are, with no growth."""
    found = forecast(peaks_of(MONDAY + np.arange(60), np.full(60, level)), 10.0)
    assert found.direction == "none"
    assert found.expected.tolist() == [level] * 60
    assert found.upper.tolist() == pytest.approx([level] * 60)
    assert (found.per_month, found.crossing) == (0.0, None)


def test_a_decline_does_not_go_below_zero():
    """A line to 10 % of the first level ends above 0."""
    found = forecast(series(line(-1.0), 90))
    assert found.direction == "decline"
    assert np.all(found.expected > 0)
    assert np.all(found.lower >= 0)


def test_the_interval_is_ordered():
    """lower <= expected <= upper on all days."""
    found = forecast(series(line(0.2), 60, noise=0.2))
    assert np.all(found.lower <= found.expected)
    assert np.all(found.expected <= found.upper)


@pytest.mark.parametrize(("limit", "horizon"), [(0.0, 1), (-1.0, 1), (float("nan"), 1), (1.0, 0)])
def test_a_limit_and_a_horizon_are_positive(limit, horizon):
    """Others raise ValueError."""
    with pytest.raises(ValueError, match=f"a limit of {limit} in {horizon} days"):
        forecast_peaks(series(flat, 30), limit, horizon)
