"""Local days and hours of quarters of an hour."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from uwsgi_headroom.report.statistics.local_time import quarters_between, require_increasing, to_local_time

BERLIN = ZoneInfo("Europe/Berlin")


def test_a_quarter_belongs_to_the_day_and_hour_of_its_start() -> None:
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
def test_days_of_daylight_saving_are_shorter_or_longer(zone: str, day: date, quarters: int) -> None:
    """All quarters of a day belong to that day, and the hour that is skipped or repeated has 0 or 8 quarters."""
    ordinal = day.toordinal()
    time = quarters_between(ordinal, ordinal, ZoneInfo(zone))
    assert len(time) == quarters
    local = to_local_time(time, ZoneInfo(zone))
    assert set(local.days.tolist()) == {ordinal}
    by_hour = np.bincount(local.hours, minlength=24)
    assert by_hour.sum() == quarters
    assert np.count_nonzero(by_hour != 4) == (0 if quarters == 96 else 1)


def test_local_time_is_that_of_datetime() -> None:
    """A year of quarters in a zone with daylight saving agrees with `datetime`."""
    start = datetime(2026, 1, 1, tzinfo=BERLIN).timestamp()
    time = start + 900.0 * np.arange(1, 35041)
    local = to_local_time(time, BERLIN)
    for place in range(0, len(time), 487):
        expected = datetime.fromtimestamp(time[place] - 900, BERLIN)
        assert (local.days[place], local.hours[place]) == (expected.toordinal(), expected.hour)


@pytest.mark.parametrize("time", [[1.0, 1.0], [2.0, 1.0], [1.0, np.nan], [1.0, np.inf]])
def test_time_that_does_not_increase_is_refused(time: list[float]) -> None:
    """Unsorted, repeated and unknown times raise ValueError."""
    with pytest.raises(ValueError, match="time"):
        require_increasing(np.array(time))


def test_no_time_has_no_days() -> None:
    """An empty column is allowed."""
    assert len(to_local_time(np.empty(0), BERLIN).days) == 0
