"""Forecasts of daily peaks against known futures."""

from datetime import date
from statistics import fmean

import pytest

from tests.report.forecast.series import MONDAY, WEEK, Series, flat, line, scaled, series, without
from uwsgi_headroom.report.forecast import Forecast, forecast_peaks

SEEDS = range(12)
FAR = 1e6


def forecast(known: Series, limit: float = FAR) -> Forecast:
    result = forecast_peaks(*known, limit)
    assert isinstance(result, Forecast), result
    return result


def expected(found: Forecast) -> list[float]:
    return [each.expected for each in found.ahead]


@pytest.mark.parametrize(
    ("level", "change", "per_month"),
    [
        (line(1.0), (), 30 / 189),
        (line(-0.5), (), -15 / 55.5),
        (line(1.0), range(30, 38), 30 / 189),
    ],
    ids=["growth", "decline", "holiday"],
)
def test_the_slope(level, change, per_month):
    """Growth in 30 days as a share of the last level, within 0.03 on average and inside its interval in 10 of 12."""
    found = [forecast(scaled(series(level, 90, seed=seed), change, 0.4)) for seed in SEEDS]
    assert fmean(each.per_month for each in found) == pytest.approx(per_month, abs=0.03)
    assert sum(each.per_month_low <= per_month <= each.per_month_high for each in found) >= 10
    assert {each.direction for each in found} == {"growth" if per_month > 0 else "decline"}


@pytest.mark.parametrize("week", [WEEK, (1.0,) * 7], ids=["weekly pattern only", "flat"])
def test_no_growth_is_reported_where_there_is_none(week):
    """In at least 11 of 12 flat series, and the expected peaks then differ by day of the week alone."""
    found = [forecast(series(flat, 90, seed=seed, week=week)) for seed in SEEDS]
    still = [each for each in found if each.direction == "none"]
    assert len(still) >= 11
    for each in still:
        assert expected(each)[:7] == pytest.approx(expected(each)[70:77])
        assert fmean(expected(each)[:14]) == pytest.approx(100.0, rel=0.03)
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
        found = forecast(Series(whole.days[:days], whole.peaks[:days]))
        actual = zip(found.ahead, whole.peaks[days:], strict=True)
        inside.append(fmean(each.low <= peak <= each.high for each, peak in actual))
    assert 0.82 <= fmean(inside) <= 0.97


def test_the_day_on_which_a_limit_is_reached():
    """The expected day is within eight days of the true one on average; the interval contains it in 11 of 12."""
    errors, inside = [], 0
    truth = series(line(1.0), 180, noise=0.0)
    day = date.fromordinal(next(day for day, peak in zip(*truth, strict=True) if peak >= 280.0))
    for seed in SEEDS:
        found = forecast(series(line(1.0), 90, seed=seed), 280.0)
        assert found.crossing is not None
        assert found.earliest is not None
        assert found.earliest <= found.crossing
        assert found.latest is None or found.crossing <= found.latest
        errors.append(abs((found.crossing - day).days))
        inside += found.earliest <= day and (found.latest is None or day <= found.latest)
    assert fmean(errors) <= 8
    assert inside >= 11


def test_no_crossing_within_the_horizon():
    """A distant limit is not reached, as far ahead as the history is long."""
    found = forecast(series(line(1.0), 90))
    assert (found.crossing, found.earliest, found.latest, found.reached) == (None, None, None, False)
    assert len(found.ahead) == 90


def test_a_limit_that_was_reached_has_no_day():
    """A peak at the limit in the last week; what was long ago does not count."""
    now = forecast(scaled(series(flat, 60), (57,), 9.0), 500.0)
    assert (now.reached, now.crossing, now.earliest, now.latest) == (True, None, None, None)
    before = forecast(scaled(series(flat, 60), (20,), 9.0), 500.0)
    assert (before.reached, before.crossing, before.earliest) == (False, None, None)


@pytest.mark.parametrize("days", [0, 1, 20])
def test_too_little_history_is_refused(days):
    """The refusal says how many days are needed and how many there are."""
    refusal = forecast_peaks(*series(flat, days), FAR)
    assert refusal.reason == f"A forecast needs 21 days of daily peaks, and this range has {days}."


def test_three_weeks_are_enough():
    """The forecast then reaches three weeks ahead."""
    found = forecast(series(flat, 21))
    assert (len(found.ahead), found.ahead[0].day.toordinal()) == (21, MONDAY + 21)


def test_too_many_gaps_are_refused():
    """Thirteen known days of thirty."""
    refusal = forecast_peaks(*without(series(flat, 30), range(2, 19)), FAR)
    assert refusal.reason == "A forecast needs 14 days with a known peak, and 30 days have 13."


def test_missing_days_leave_no_trace():
    """The forecast with two weeks missing is that without them, within 3 % on average."""
    misses = []
    for seed in SEEDS:
        whole = series(line(1.0), 90, seed=seed)
        gaps = without(whole, [*range(20, 34), *range(50, 53)])
        pairs = zip(expected(forecast(gaps)), expected(forecast(whole)), strict=True)
        misses += [abs(one / other - 1) for one, other in pairs]
    assert fmean(misses) <= 0.03


def test_an_unusual_last_day_moves_nothing():
    """A last day of three times the usual leaves the expected level."""
    found = forecast(scaled(series(flat, 60), (59,), 3.0))
    assert fmean(expected(found)[:7]) == pytest.approx(100.0, rel=0.05)


@pytest.mark.parametrize("level", [0.0, 7.0])
def test_constants_stay(level):
    """Zero and a constant are forecast as they are, with no growth."""
    found = forecast(Series(range(MONDAY, MONDAY + 60), [level] * 60), 10.0)
    assert found.direction == "none"
    assert expected(found) == [level] * 60
    assert [each.high for each in found.ahead] == pytest.approx([level] * 60)
    assert (found.per_month, found.crossing) == (0.0, None)


@pytest.mark.parametrize("per_day", [-1.0, 0.2])
def test_the_interval_is_ordered(per_day):
    """low <= expected <= high on all days, and a decline does not go below zero."""
    found = forecast(series(line(per_day), 90, noise=0.1))
    assert all(0 <= each.low <= each.expected <= each.high for each in found.ahead)
    assert found.direction == ("decline" if per_day < 0 else found.direction)
    assert min(expected(found)) > 0
