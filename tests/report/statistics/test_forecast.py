"""Forecasts of daily peaks against known futures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.report.statistics.series import MONDAY, WEEK, flat, line, peaks_of, scaled, series, step, without
from uwsgi_headroom.report.columns import EventMark
from uwsgi_headroom.report.statistics import Refusal
from uwsgi_headroom.report.statistics.forecast import Forecast, crossing_of, forecast_peaks
from uwsgi_headroom.report.statistics.peaks import DailyPeaks

Level = Callable[[np.ndarray], np.ndarray]
SEEDS = range(12)


def forecast(peaks: DailyPeaks, limit: float | None = None, **settings: object) -> Forecast:
    result = forecast_peaks(peaks, limit, **settings)
    assert isinstance(result, Forecast), result
    return result


def doubling(days: float) -> Level:
    return lambda day: 100 * 2 ** (day / days)


@pytest.mark.parametrize(
    ("level", "change", "per_month"),
    [
        (line(1.0), slice(0), 30 / 189),
        (line(-0.5), slice(0), -15 / 55.5),
        (line(1.0), slice(30, 38), 30 / 189),
        (step(30, 1.5, 1.0), slice(0), 30 / 189),
    ],
    ids=["growth", "decline", "holiday", "step and growth"],
)
def test_the_slope(level: Level, change: slice, per_month: float) -> None:
    """Growth in 30 days as a share of the last level, within 0.03 on average and inside its interval in 10 of 12."""
    found = [forecast(scaled(series(level, 90, seed=seed), change, 0.4)) for seed in SEEDS]
    assert np.mean([each.per_month for each in found]) == pytest.approx(per_month, abs=0.03)
    assert sum(each.per_month_low <= per_month <= each.per_month_high for each in found) >= 10
    assert {each.direction for each in found} == {"growth" if per_month > 0 else "decline"}


@pytest.mark.parametrize("week", [WEEK, np.ones(7)], ids=["weekly pattern only", "flat"])
def test_no_growth_is_reported_where_there_is_none(week: np.ndarray) -> None:
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
        (doubling(90), 90, {}),
        (step(30, 1.5, 1.0), 120, {}),
    ],
    ids=["four weeks", "noise", "correlated noise", "growth", "decline", "exponential", "step"],
)
def test_the_interval_contains_about_nine_of_ten_peaks(level: Level, days: int, settings: dict[str, float]) -> None:
    """Over 12 series and as many days ahead as there is history, 82 to 97 % are inside (90 % are aimed at)."""
    inside = []
    for seed in SEEDS:
        whole = series(level, 2 * days, seed=seed, **settings)
        found = forecast_peaks(peaks_of(whole.days[:days], whole.peaks[:days]))
        if isinstance(found, Forecast):
            actual = whole.peaks[days : days + found.horizon_days]
            inside.append(np.mean((found.lower <= actual) & (actual <= found.upper)))
    assert len(inside) >= 11
    assert 0.82 <= np.mean(inside) <= 0.97


def test_exponential_growth_is_recognised() -> None:
    """Fourfold growth in 90 days is exponential; a line is none."""
    shapes = [forecast(series(doubling(45), 90, seed=seed)).shape for seed in SEEDS]
    assert shapes.count("exponential") >= 11
    shapes = [forecast(series(line(1.0), 90, seed=seed)).shape for seed in SEEDS]
    assert shapes.count("linear") >= 11


@pytest.mark.parametrize(("level", "limit"), [(line(1.0), 250.0), (doubling(45), 800.0), (step(20, 1.5, 1.0), 400.0)])
def test_the_day_on_which_a_limit_is_reached(level: Level, limit: float) -> None:
    """The expected day is within eight days of the true one on average; the interval contains it in 11 of 12."""
    errors, inside = [], 0
    truth = level(np.arange(180)) * np.resize(WEEK / WEEK.mean(), 180)
    day = MONDAY + int(np.flatnonzero(truth >= limit)[0])
    for seed in SEEDS:
        crossing = forecast(series(level, 90, seed=seed), limit).crossing
        assert crossing is not None
        assert crossing.expected is not None
        assert crossing.earliest is not None
        assert crossing.earliest <= crossing.expected
        assert crossing.latest is None or crossing.expected <= crossing.latest
        errors.append(crossing.expected - day)
        inside += crossing.earliest <= day and (crossing.latest is None or day <= crossing.latest)
    assert np.mean(np.abs(errors)) <= 8
    assert inside >= 11


def test_no_crossing_within_the_horizon() -> None:
    """A distant limit is not reached; the crossing says how far ahead was looked."""
    found = forecast(series(line(1.0), 90), 1e6)
    assert found.crossing is not None
    assert (found.crossing.expected, found.crossing.earliest, found.crossing.latest) == (None, None, None)
    assert not found.crossing.reached
    assert found.crossing.horizon_days == found.horizon_days == 90


def test_a_limit_that_is_already_reached() -> None:
    """A peak of the last week at the limit is reported, without a date ahead."""
    peaks = series(flat, 60, noise=0.0)
    crossing = crossing_of(forecast(peaks), float(peaks.peaks.max()), peaks)
    assert crossing.reached
    assert crossing.expected is None
    assert not crossing_of(forecast(peaks), float(peaks.peaks.max()) * 1.001, peaks).reached


def test_a_flood_long_ago_is_no_limit_reached() -> None:
    """Only the last seven days count."""
    peaks = scaled(series(flat, 60), slice(20, 21), 9.0)
    crossing = crossing_of(forecast(peaks), 500.0, peaks)
    assert (crossing.reached, crossing.expected, crossing.earliest) == (False, None, None)


@pytest.mark.parametrize(("days", "have"), [(0, 0), (1, 1), (20, 20)])
def test_too_little_history_is_refused(days: int, have: int) -> None:
    """The refusal says how many days are needed and how many there are."""
    refusal = forecast_peaks(series(flat, days) if days else peaks_of(np.empty(0, np.int64), np.empty(0)))
    assert isinstance(refusal, Refusal)
    assert (refusal.needed_days, refusal.days) == (21, have)
    assert "21 days" in refusal.reason


def test_three_weeks_are_enough() -> None:
    """The forecast then reaches three weeks ahead, and says why no further."""
    found = forecast(series(flat, 21))
    assert (found.history_days, found.horizon_days, len(found.days)) == (21, 21, 21)
    assert found.days[0] == MONDAY + 21
    assert any("21 days" in note for note in found.notes)


def test_too_many_gaps_are_refused() -> None:
    """Thirteen known days of thirty."""
    refusal = forecast_peaks(without(series(flat, 30), np.arange(2, 19)))
    assert isinstance(refusal, Refusal)
    assert (refusal.needed_days, refusal.days) == (14, 13)
    assert "30 days have 13" in refusal.reason


def test_a_recent_step_is_refused_with_its_date_and_cause() -> None:
    """Ten days after a step there is no forecast, neither from the old level nor across the step."""
    deploy = EventMark(time=1767571200.0 + 80 * 86400.0 + 30000.0, kind="reload", title="Deploy 7")
    refusal = forecast_peaks(series(step(80, 1.5), 90), events=[deploy])
    assert isinstance(refusal, Refusal)
    assert refusal.reason.startswith("Daily peaks changed by +")
    assert "in a step on 2026-03-26 (Deploy 7); since then a forecast needs 21 days" in refusal.reason
    assert (refusal.needed_days, refusal.days) == (21, 10)


def test_a_step_is_not_taken_for_growth() -> None:
    """After a step of a half, at day 45 of 90, there is no growth in 11 of 12 series, and a note names the step."""
    found = [forecast(series(step(45, 1.5), 90, seed=seed)) for seed in SEEDS]
    assert sum(each.direction == "none" for each in found) >= 11
    assert {each.history_days for each in found} == {45}
    assert all(each.notes[0].startswith("Daily peaks changed by +") for each in found)
    assert np.mean([each.level for each in found]) == pytest.approx(150.0, rel=0.02)


def test_missing_days_leave_no_trace() -> None:
    """The forecast with two weeks missing is that without them, within 3 %."""
    whole = series(line(1.0), 90)
    gaps = without(whole, np.r_[20:34, 50:53])
    assert forecast(gaps).expected == pytest.approx(forecast(whole).expected, rel=0.03)


def test_left_out_days_are_counted() -> None:
    """A note says how many days are exceptions."""
    found = forecast(scaled(series(flat, 60), slice(20, 27), 0.3))
    assert "7 days are far from what is usual, as holidays are, and are left out." in found.notes


def test_an_unusual_last_day_is_noted() -> None:
    """A last day of three times the usual is no level yet, but is mentioned."""
    found = forecast(scaled(series(flat, 60), slice(59, 60), 3.0))
    assert any(note.startswith("The last day is one of them") for note in found.notes)
    assert found.level == pytest.approx(100.0, rel=0.05)


@pytest.mark.parametrize("level", [0.0, 7.0])
def test_constants_stay(level: float) -> None:
    """Zero and a constant are forecast as they are, with no growth."""
    found = forecast(peaks_of(MONDAY + np.arange(60), np.full(60, level)), 10.0)
    assert found.direction == "none"
    assert found.expected.tolist() == [level] * 60
    assert found.upper.tolist() == pytest.approx([level] * 60)
    assert found.per_month == 0.0
    assert found.crossing is not None
    assert found.crossing.expected is None


def test_a_decline_does_not_go_below_zero() -> None:
    """A line to 10 % of the first level ends above 0."""
    found = forecast(series(line(-1.0), 90))
    assert found.direction == "decline"
    assert np.all(found.expected > 0)
    assert np.all(found.lower >= 0)


def test_the_interval_is_ordered_and_repeats() -> None:
    """lower <= expected <= upper on all days, and the same data give the same result."""
    first, second = (forecast(series(line(0.2), 60, noise=0.2)) for _ in range(2))
    assert np.all(first.lower <= first.expected)
    assert np.all(first.expected <= first.upper)
    assert np.array_equal(first.upper, second.upper)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_a_limit_is_positive(limit: float) -> None:
    """Other limits raise ValueError, as does a horizon without days."""
    with pytest.raises(ValueError, match="limit"):
        forecast_peaks(series(flat, 30), limit)
    with pytest.raises(ValueError, match="horizon"):
        forecast_peaks(series(flat, 30), horizon_days=0)
