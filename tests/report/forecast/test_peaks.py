"""Daily peaks: the largest quarter of each local day; and the weekly pattern of peaks."""

from collections.abc import Callable
from datetime import date, datetime
from statistics import fmean
from zoneinfo import ZoneInfo

import pytest

from tests.report.forecast.series import MONDAY, WEEK, flat, line, scaled, series, step, without
from uwsgi_headroom.report.forecast import DailyPeaks, daily_peaks, weekly_pattern
from uwsgi_headroom.report.quarters import STEP

UTC, BERLIN = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")


def weeks(days: int = 28, zone: ZoneInfo = UTC, first: int = MONDAY) -> dict[float, float]:
    """Load by quarter, with its maximum of 10 plus the day's number in the first quarter after 10 o'clock."""
    begin, end = (datetime.fromordinal(day).replace(tzinfo=zone).timestamp() for day in (first, first + days))
    load = {}
    for place in range(round((end - begin) / STEP)):
        start = datetime.fromtimestamp(begin + STEP * place, zone)
        peak = 5.0 + start.toordinal() - first if (start.hour, start.minute) == (10, 0) else 0.0
        load[begin + STEP * (place + 1)] = 5.0 - 0.3 * abs(start.hour - 10) + peak
    return load


def keep(load: dict[float, float], is_kept: Callable[[int, int], bool]) -> dict[float, float]:
    """The quarters whose day (from 0) and hour in UTC are kept."""
    first = min(load) - STEP

    def day_and_hour(end: float) -> tuple[int, int]:
        start = end - STEP - first
        return int(start // 86400), int(start % 86400 // 3600)

    return {end: value for end, value in load.items() if is_kept(*day_and_hour(end))}


def assert_peaks(peaks: DailyPeaks, days: list[int], first: int = MONDAY) -> None:
    assert [day - first for day in peaks.days] == days
    assert peaks.peaks == pytest.approx([10.0 + day for day in days])


def test_the_largest_quarter_of_each_day():
    """Each complete day has its peak, and the time of it."""
    peaks = daily_peaks(weeks(), UTC)
    assert_peaks(peaks, list(range(28)))
    assert (peaks.left_out, peaks.missing, list(peaks.peak_hours)) == (0, 0, [10])
    assert {time % 86400 for time in peaks.times} == {10.25 * 3600}


def test_a_day_that_lacks_its_peak_hours_is_left_out():
    """A gap over the peak hour costs the day; the same gap at night does not."""
    load = keep(weeks(), lambda day, hour: not (day == 3 and 9 <= hour < 12) and not (day == 5 and hour < 6))
    peaks = daily_peaks(load, UTC)
    assert_peaks(peaks, [day for day in range(28) if day != 3])
    assert (peaks.left_out, peaks.missing) == (1, 0)


def test_partial_days_at_both_ends_are_left_out():
    """The range starts in an afternoon and ends in a morning."""
    peaks = daily_peaks(dict(list(weeks().items())[60:-70]), UTC)
    assert_peaks(peaks, list(range(1, 27)))
    assert peaks.left_out == 2


def test_missing_days_are_counted():
    """Days of which nothing is known."""
    peaks = daily_peaks(keep(weeks(), lambda day, _hour: day not in (5, 6, 10)), UTC)
    assert_peaks(peaks, [day for day in range(28) if day not in (5, 6, 10)])
    assert (peaks.left_out, peaks.missing) == (0, 3)


@pytest.mark.parametrize(
    ("day", "first"), [(date(2026, 3, 29), date(2026, 3, 16)), (date(2026, 10, 25), date(2026, 10, 12))]
)
def test_days_of_daylight_saving_have_one_peak(day, first):
    """A day of 23 or 25 hours is complete, and its peak is at the same local hour."""
    start = first.toordinal()
    peaks = daily_peaks(weeks(21, BERLIN, start), BERLIN)
    assert_peaks(peaks, list(range(21)), start)
    assert day.toordinal() in peaks.days
    assert peaks.left_out == 0
    assert {datetime.fromtimestamp(time - STEP, BERLIN).hour for time in peaks.times} == {10}


def test_the_zone_decides_which_day_a_peak_belongs_to():
    """A peak at 23:00 UTC is on the next day in Berlin; the quarter that ends at midnight is the last one of the day
    before."""
    load = {end: 9.0 if end % 86400 == 23.25 * 3600 else 1.0 for end in weeks(10)}
    in_utc, in_berlin = daily_peaks(load, UTC), daily_peaks(load, BERLIN)
    assert in_berlin.times == in_utc.times
    assert in_berlin.days == [day + 1 for day in in_utc.days]
    assert in_berlin.left_out == 1  # the first day, which lacks its hour from midnight
    assert daily_peaks({end: end for end in weeks(1)}, UTC).days == [MONDAY]


def test_a_server_that_is_off_at_night_has_peaks():
    """Coverage is of the hours in which peaks fall, not of the whole day."""
    assert_peaks(daily_peaks(keep(weeks(), lambda _day, hour: 8 <= hour < 18), UTC), list(range(28)))


def test_one_day_and_one_hour():
    """A single complete day has its peak; an hour of data has none, as the rest of the day is not known."""
    load = weeks(1)
    assert_peaks(daily_peaks(load, UTC), [0])
    hour = daily_peaks(dict(list(load.items())[40:44]), UTC)
    assert (hour.days, hour.left_out, list(hour.peak_hours)) == ([], 1, list(range(24)))


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_constants(value):
    """Zero and a constant are peaks as any other."""
    assert daily_peaks(dict.fromkeys(weeks(14), value), UTC).peaks == [value] * 14


def test_nothing_known():
    """No values: no peaks."""
    peaks = daily_peaks({}, UTC)
    assert (peaks.days, peaks.peaks, peaks.times, peaks.left_out, peaks.missing) == ([], [], [], 0, 0)


TRUE = [factor / fmean(WEEK) for factor in WEEK]


@pytest.mark.parametrize(
    ("known", "tolerance"),
    [
        (series(flat, 90, noise=0.0), 1e-9),
        (series(flat, 90), 0.05),
        (series(line(1.0), 90), 0.05),
        (series(step(30, 1.6), 90), 0.05),
        (scaled(series(flat, 90), range(40, 50), 0.4), 0.05),
        (without(series(flat, 90), range(10, 30)), 0.05),
    ],
    ids=["exact", "noise", "growth", "step", "holidays", "missing days"],
)
def test_the_factor_of_each_day_of_the_week(known, tolerance):
    """Steps, growth, holidays and gaps do not move the pattern by more than noise does."""
    pattern = weekly_pattern(*known)
    assert pattern.detail == "weekday"
    assert pattern.factors == pytest.approx(TRUE, rel=tolerance)
    assert fmean(pattern.factors) == pytest.approx(1.0)
    assert [pattern.of(MONDAY), pattern.of(MONDAY + 6)] == [pattern.factors[0], pattern.factors[6]]


@pytest.mark.parametrize(
    ("days", "detail"), [(1, "none"), (10, "none"), (14, "weekend"), (27, "weekend"), (28, "weekday")]
)
def test_detail_grows_with_history(days, detail):
    """Two weeks separate the weekend from the week; four weeks separate the days."""
    pattern = weekly_pattern(*series(flat, days))
    assert pattern.detail == detail
    weekend = fmean(TRUE[5:]) / fmean(TRUE[:5])
    ratio = fmean(pattern.factors[5:]) / fmean(pattern.factors[:5])
    assert ratio == pytest.approx(1.0 if detail == "none" else weekend, rel=0.05)


@pytest.mark.parametrize("level", [0.0, 5.0])
def test_a_constant_has_no_pattern(level):
    """All factors of a constant are 1, also of zero."""
    assert weekly_pattern(range(MONDAY, MONDAY + 60), [level] * 60).factors == [1.0] * 7


def test_weekends_without_load():
    """A factor is never 0, so that a level can be divided by it."""
    factors = weekly_pattern(*series(flat, 60, week=(1.0, 1, 1, 1, 1, 0, 0))).factors
    assert factors[:5] == pytest.approx([1.4] * 5, rel=0.05)
    assert all(0 < factor < 0.02 for factor in factors[5:])
