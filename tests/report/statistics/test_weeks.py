"""Local days and hours of quarters of an hour, means by weekday and hour, and the weekly pattern of peaks."""

from datetime import date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tests.report.statistics.series import MONDAY, UTC, WEEK, flat, line, scaled, series, step, without
from uwsgi_headroom.report.statistics.local_time import (
    by_weekday_and_hour,
    quarters_between,
    require_increasing,
    to_local_time,
)
from uwsgi_headroom.report.statistics.peaks import median_around, weekly_pattern

BERLIN = ZoneInfo("Europe/Berlin")


def test_a_quarter_belongs_to_the_day_and_hour_of_its_start():
    """The quarter that ends at midnight is the last one of the day before."""
    midnight = datetime(2026, 3, 10, tzinfo=BERLIN).timestamp()
    local = to_local_time(np.array([midnight, midnight + 900]), BERLIN)
    assert [date.fromordinal(day) for day in local.days] == [date(2026, 3, 9), date(2026, 3, 10)]
    assert local.hours.tolist() == [23, 0]
    assert local.weekdays.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("zone", "day", "quarters"),
    [
        ("Europe/Berlin", date(2026, 3, 29), 92),
        ("Europe/Berlin", date(2026, 10, 25), 100),
        ("Europe/Berlin", date(2026, 6, 1), 96),
        ("Australia/Lord_Howe", date(2026, 4, 5), 98),
        ("Asia/Kathmandu", date(2026, 4, 5), 96),
        ("Pacific/Apia", date(2011, 12, 29), 96),
    ],
)
def test_days_of_daylight_saving_are_shorter_or_longer(zone, day, quarters):
    """All quarters of a day belong to that day, and the hour that is skipped or repeated has 0 or 8 quarters."""
    ordinal = day.toordinal()
    time = quarters_between(ordinal, ordinal, ZoneInfo(zone))
    assert len(time) == quarters
    local = to_local_time(time, ZoneInfo(zone))
    assert set(local.days.tolist()) == {ordinal}
    by_hour = np.bincount(local.hours, minlength=24)
    assert by_hour.sum() == quarters
    assert np.count_nonzero(by_hour != 4) == (0 if quarters == 96 else 1)


def test_local_time_is_that_of_datetime():
    """A year of quarters in a zone with daylight saving agrees with `datetime`."""
    start = datetime(2026, 1, 1, tzinfo=BERLIN).timestamp()
    time = start + 900.0 * np.arange(1, 35041)
    local = to_local_time(time, BERLIN)
    for place in range(0, len(time), 487):
        expected = datetime.fromtimestamp(time[place] - 900, BERLIN)
        assert (local.days[place], local.hours[place]) == (expected.toordinal(), expected.hour)


@pytest.mark.parametrize("time", [[1.0, 1.0], [2.0, 1.0], [1.0, np.nan], [1.0, np.inf]])
def test_time_that_does_not_increase_is_refused(time):
    """Unsorted, repeated and unknown times raise ValueError."""
    with pytest.raises(ValueError, match="time"):
        require_increasing(np.array(time))


def test_no_time_has_no_days():
    """An empty column is allowed."""
    assert len(to_local_time(np.empty(0), BERLIN).days) == 0


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
def test_the_factor_of_each_day_of_the_week(peaks, tolerance):
    """Steps, growth, holidays and gaps do not move the pattern by more than noise does."""
    pattern = weekly_pattern(peaks.days, peaks.peaks)
    assert pattern.detail == "weekday"
    assert pattern.factors == pytest.approx(TRUE, rel=tolerance)
    assert pattern.factors.mean() == pytest.approx(1.0)
    assert pattern.of(np.array([MONDAY, MONDAY + 6])) == pytest.approx(pattern.factors[[0, 6]])


@pytest.mark.parametrize(
    ("days", "detail"), [(1, "none"), (10, "none"), (14, "weekend"), (27, "weekend"), (28, "weekday")]
)
def test_detail_grows_with_history(days, detail):
    """Two weeks separate the weekend from the week; four weeks separate the days."""
    peaks = series(flat, days)
    pattern = weekly_pattern(peaks.days, peaks.peaks)
    assert pattern.detail == detail
    weekend = TRUE[5:].mean() / TRUE[:5].mean()
    ratio = pattern.factors[5:].mean() / pattern.factors[:5].mean()
    assert ratio == pytest.approx(1.0 if detail == "none" else weekend, rel=0.05)


@pytest.mark.parametrize("level", [0.0, 5.0])
def test_a_constant_has_no_pattern(level):
    """All factors of a constant are 1, also of zero."""
    assert weekly_pattern(MONDAY + np.arange(60), np.full(60, level)).factors.tolist() == [1.0] * 7


def test_weekends_without_load():
    """A factor is never 0, so that a level can be divided by it."""
    peaks = series(flat, 60, week=np.array([1.0, 1, 1, 1, 1, 0, 0]))
    factors = weekly_pattern(peaks.days, peaks.peaks).factors
    assert factors[:5] == pytest.approx(np.full(5, 1.4), rel=0.05)
    assert np.all(factors[5:] > 0)
    assert np.all(factors[5:] < 0.02)


def test_the_median_around_a_day_moves_inwards_at_the_ends():
    """Each window has seven days; missing days are nan where too few are known."""
    days = MONDAY + np.array([0, 1, 2, 3, 4, 5, 6, 20])
    around = median_around(days, np.array([1.0, 2, 3, 4, 5, 6, 7, 9]), 3, least=5)
    assert around[:4].tolist() == [4.0, 4.0, 4.0, 4.0]
    assert np.isnan(around[-1])
    assert len(median_around(days[:0], np.empty(0), 3)) == 0


def test_each_hour_of_the_week():
    """Two weeks of the number of the hour of the week."""
    time = quarters_between(MONDAY, MONDAY + 13, UTC)
    heat = by_weekday_and_hour(time, np.floor(np.arange(len(time)) / 4) % 168, UTC)
    assert heat.values.ravel().tolist() == list(range(168))
    assert np.all(heat.counts == 8)


def test_hours_are_local():
    """23:00 to 24:00 UTC on Sunday is 00:00 to 01:00 on Monday in Berlin."""
    time = quarters_between(MONDAY - 1, MONDAY - 1, UTC)[-4:]
    heat = by_weekday_and_hour(time, np.full(4, 3.0), ZoneInfo("Europe/Berlin"))
    assert heat.values[0, 0] == 3.0
    assert heat.counts.sum() == heat.counts[0, 0] == 4


def test_daylight_saving_skips_and_repeats_an_hour():
    """On the last Sunday of March 2 o'clock has no quarters; on that of October it has eight."""
    zone = ZoneInfo("Europe/Berlin")
    for day, quarters in ((date(2026, 3, 29), 0), (date(2026, 10, 25), 8)):
        time = quarters_between(day.toordinal(), day.toordinal(), zone)
        heat = by_weekday_and_hour(time, np.ones(len(time)), zone)
        assert heat.counts[6, 2] == quarters
        assert np.isnan(heat.values[6, 2]) == (quarters == 0)


def test_weights():
    """The mean over requests; quarters without value or weight are left out."""
    time = quarters_between(MONDAY, MONDAY, UTC)[:4]
    weights = np.array([3.0, 1.0, 0.0, np.nan])
    heat = by_weekday_and_hour(time, np.array([1.0, 5.0, 99.0, 99.0]), UTC, weights)
    assert (heat.values[0, 0], heat.counts[0, 0]) == (2.0, 2)
    heat = by_weekday_and_hour(time, np.array([1.0, np.nan, np.inf, 2.0]), UTC)
    assert (heat.values[0, 0], heat.counts[0, 0]) == (1.5, 2)


def test_nothing_known():
    """All cells are nan with count 0."""
    heat = by_weekday_and_hour(np.empty(0), np.empty(0), UTC)
    assert heat.values.shape == heat.counts.shape == (7, 24)
    assert np.isnan(heat.values).all()
    assert heat.counts.sum() == 0


def test_bad_columns_are_refused():
    """Unsorted time and different lengths raise ValueError."""
    with pytest.raises(ValueError, match="increase"):
        by_weekday_and_hour(np.array([1800.0, 900.0]), np.ones(2), UTC)
    with pytest.raises(ValueError, match="lengths"):
        by_weekday_and_hour(np.array([900.0, 1800.0]), np.ones(2), UTC, np.ones(3))


def test_values_are_those_of_a_plain_loop():
    """Against a sum by hand, on random data with gaps in a zone with daylight saving."""
    zone = ZoneInfo("America/New_York")
    random = np.random.default_rng(3)
    time = quarters_between(MONDAY + 50, MONDAY + 71, zone)
    values = np.where(random.random(len(time)) < 0.2, np.nan, random.random(len(time)))
    heat = by_weekday_and_hour(time, values, zone)
    local = to_local_time(time, zone)
    for weekday, hour in ((0, 0), (3, 12), (6, 2)):
        cell = values[(local.weekdays == weekday) & (local.hours == hour)]
        assert heat.values[weekday, hour] == pytest.approx(np.nanmean(cell))
