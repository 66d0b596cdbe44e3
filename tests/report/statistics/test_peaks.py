"""Daily peaks: the largest quarter of each local day."""

from datetime import date
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.report.statistics.series import MONDAY, UTC
from uwsgi_headroom.report.statistics.local_time import quarters_between, to_local_time
from uwsgi_headroom.report.statistics.peaks import DailyPeaks, daily_peaks

BERLIN = ZoneInfo("Europe/Berlin")


def office_hours(time: NDArray[np.float64], zone: ZoneInfo) -> NDArray[np.float64]:
    """Load with its maximum of 10 plus the day's number in the first quarter after 10 o'clock."""
    local = to_local_time(time, zone)
    day = local.days - local.days[0]
    starts = np.where((local.hours == 10) & (np.diff(local.hours, prepend=-1) != 0), 1.0, 0.0)
    return 5.0 - 0.3 * np.abs(local.hours - 10) + starts * (5.0 + day)


def weeks(days: int = 28, zone: ZoneInfo = UTC, first: int = MONDAY) -> tuple[NDArray, NDArray]:
    time = quarters_between(first, first + days - 1, zone)
    return time, office_hours(time, zone)


def assert_peaks(peaks: DailyPeaks, days: list[int], first: int = MONDAY) -> None:
    assert (peaks.days - first).tolist() == days
    assert peaks.peaks == pytest.approx([10.0 + day for day in days])


def test_the_largest_quarter_of_each_day():
    """Each complete day has its peak, and the time of it."""
    peaks = daily_peaks(*weeks(), UTC)
    assert_peaks(peaks, list(range(28)))
    assert (peaks.left_out, peaks.missing, peaks.peak_hours) == (0, 0, (10,))
    assert np.all(peaks.times % 86400 == 10.25 * 3600)


def test_a_day_that_lacks_its_peak_hours_is_left_out():
    """A gap over the peak hour costs the day; the same gap at night does not."""
    time, values = weeks()
    hours = to_local_time(time, UTC).hours
    day = (np.arange(len(time))) // 96
    values[(day == 3) & (hours >= 9) & (hours < 12)] = np.nan
    values[(day == 5) & (hours < 6)] = np.nan
    peaks = daily_peaks(time, values, UTC)
    assert_peaks(peaks, [day for day in range(28) if day != 3])
    assert (peaks.left_out, peaks.missing) == (1, 0)


def test_partial_days_at_both_ends_are_left_out():
    """The range starts in an afternoon and ends in a morning."""
    time, values = weeks()
    peaks = daily_peaks(time[60:-70], values[60:-70], UTC)
    assert_peaks(peaks, list(range(1, 27)))
    assert peaks.left_out == 2


def test_missing_days_are_counted():
    """Days without any row, and days with rows of nan."""
    time, values = weeks()
    values[96 * 5 : 96 * 7] = np.nan
    kept = np.r_[0 : 96 * 10, 96 * 13 : len(time)]
    peaks = daily_peaks(time[kept], values[kept], UTC)
    assert_peaks(peaks, [day for day in range(28) if day not in (5, 6, 10, 11, 12)])
    assert (peaks.left_out, peaks.missing) == (0, 5)


def test_a_reset_leaves_no_trace():
    """A negative or infinite rate, as from a counter that went back, is a gap."""
    time, values = weeks()
    expected = daily_peaks(time, values, UTC)
    values[96 * 4 + 20], values[96 * 8 + 80] = -1e6, np.inf
    peaks = daily_peaks(time, values, UTC)
    assert np.array_equal(peaks.peaks, expected.peaks)
    assert peaks.left_out == 0


@pytest.mark.parametrize(
    ("day", "first"), [(date(2026, 3, 29), date(2026, 3, 16)), (date(2026, 10, 25), date(2026, 10, 12))]
)
def test_days_of_daylight_saving_have_one_peak(day, first):
    """A day of 23 or 25 hours is complete, and its peak is at the same local hour."""
    start = first.toordinal()
    peaks = daily_peaks(*weeks(21, BERLIN, start), BERLIN)
    assert_peaks(peaks, list(range(21)), start)
    assert day.toordinal() in peaks.days
    assert peaks.left_out == 0
    assert to_local_time(peaks.times, BERLIN).hours.tolist() == [10] * 21


def test_the_zone_decides_which_day_a_peak_belongs_to():
    """A peak at 23:00 UTC is on the next day in Berlin."""
    time = quarters_between(MONDAY, MONDAY + 9, UTC)
    values = np.where(time % 86400 == 23.25 * 3600, 9.0, 1.0)
    in_utc, in_berlin = daily_peaks(time, values, UTC), daily_peaks(time, values, BERLIN)
    assert in_berlin.times.tolist() == in_utc.times.tolist()
    assert in_berlin.days.tolist() == (in_utc.days + 1).tolist()
    assert in_berlin.left_out == 1  # the first day, which lacks its hour from midnight


def test_a_server_that_is_off_at_night_has_peaks():
    """Coverage is of the hours in which peaks fall, not of the whole day."""
    time, values = weeks()
    hours = to_local_time(time, UTC).hours
    values[(hours < 8) | (hours >= 18)] = np.nan
    assert_peaks(daily_peaks(time, values, UTC), list(range(28)))


def test_one_day_and_one_hour():
    """A single complete day has its peak; an hour of data has none, as the rest of the day is not known."""
    time, values = weeks(1)
    assert_peaks(daily_peaks(time, values, UTC), [0])
    hour = daily_peaks(time[40:44], values[40:44], UTC)
    assert (len(hour.days), hour.left_out, hour.peak_hours) == (0, 1, tuple(range(24)))


@pytest.mark.parametrize("values", [np.zeros(96 * 14), np.full(96 * 14, 7.0)])
def test_constants(values):
    """Zero and a constant are peaks as any other."""
    peaks = daily_peaks(quarters_between(MONDAY, MONDAY + 13, UTC), values, UTC)
    assert peaks.peaks.tolist() == [values[0]] * 14


@pytest.mark.parametrize("length", [0, 500])
def test_nothing_known(length):
    """No values, or nan only: no peaks."""
    peaks = daily_peaks(900.0 * np.arange(1, length + 1), np.full(length, np.nan), UTC)
    assert len(peaks.days) == len(peaks.peaks) == len(peaks.times) == peaks.left_out == peaks.missing == 0


def test_bad_columns_are_refused():
    """Unsorted time and different lengths raise ValueError."""
    with pytest.raises(ValueError, match="increase"):
        daily_peaks(np.array([900.0, 1800.0, 1800.0]), np.ones(3), UTC)
    with pytest.raises(ValueError, match="lengths: 3, 2"):
        daily_peaks(np.array([900.0, 1800.0, 2700.0]), np.ones(2), UTC)
