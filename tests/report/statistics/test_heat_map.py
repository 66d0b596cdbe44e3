"""Means by weekday and hour."""

from __future__ import annotations

from datetime import date
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tests.report.statistics.series import MONDAY, UTC
from uwsgi_headroom.report.statistics.local_time import by_weekday_and_hour, quarters_between, to_local_time


def test_each_hour_of_the_week() -> None:
    """Two weeks of the number of the hour of the week."""
    time = quarters_between(MONDAY, MONDAY + 13, UTC)
    heat = by_weekday_and_hour(time, np.floor(np.arange(len(time)) / 4) % 168, UTC)
    assert heat.values.ravel().tolist() == list(range(168))
    assert np.all(heat.counts == 8)


def test_hours_are_local() -> None:
    """23:00 to 24:00 UTC on Sunday is 00:00 to 01:00 on Monday in Berlin."""
    time = quarters_between(MONDAY - 1, MONDAY - 1, UTC)[-4:]
    heat = by_weekday_and_hour(time, np.full(4, 3.0), ZoneInfo("Europe/Berlin"))
    assert heat.values[0, 0] == 3.0
    assert heat.counts.sum() == heat.counts[0, 0] == 4


def test_daylight_saving_skips_and_repeats_an_hour() -> None:
    """On the last Sunday of March 2 o'clock has no quarters; on that of October it has eight."""
    zone = ZoneInfo("Europe/Berlin")
    for day, quarters in ((date(2026, 3, 29), 0), (date(2026, 10, 25), 8)):
        time = quarters_between(day.toordinal(), day.toordinal(), zone)
        heat = by_weekday_and_hour(time, np.ones(len(time)), zone)
        assert heat.counts[6, 2] == quarters
        assert np.isnan(heat.values[6, 2]) == (quarters == 0)


def test_weights() -> None:
    """The mean over requests; quarters without value or weight are left out."""
    time = quarters_between(MONDAY, MONDAY, UTC)[:4]
    weights = np.array([3.0, 1.0, 0.0, np.nan])
    heat = by_weekday_and_hour(time, np.array([1.0, 5.0, 99.0, 99.0]), UTC, weights)
    assert (heat.values[0, 0], heat.counts[0, 0]) == (2.0, 2)
    heat = by_weekday_and_hour(time, np.array([1.0, np.nan, np.inf, 2.0]), UTC)
    assert (heat.values[0, 0], heat.counts[0, 0]) == (1.5, 2)


def test_nothing_known() -> None:
    """All cells are nan with count 0."""
    heat = by_weekday_and_hour(np.empty(0), np.empty(0), UTC)
    assert heat.values.shape == heat.counts.shape == (7, 24)
    assert np.isnan(heat.values).all()
    assert heat.counts.sum() == 0


def test_bad_columns_are_refused() -> None:
    """Unsorted time and different lengths raise ValueError."""
    with pytest.raises(ValueError, match="increase"):
        by_weekday_and_hour(np.array([1800.0, 900.0]), np.ones(2), UTC)
    with pytest.raises(ValueError, match="lengths"):
        by_weekday_and_hour(np.array([900.0, 1800.0]), np.ones(2), UTC, np.ones(3))


def test_values_are_those_of_a_plain_loop() -> None:
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
