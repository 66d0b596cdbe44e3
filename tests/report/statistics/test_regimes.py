"""Steps in daily peaks are found; growth, patterns, holidays and gaps are no steps."""

from __future__ import annotations

from collections.abc import Callable
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tests.report.statistics.series import MONDAY, flat, line, peaks_of, scaled, series, step, without
from uwsgi_headroom.report.columns import EventMark
from uwsgi_headroom.report.statistics.peaks import DailyPeaks
from uwsgi_headroom.report.statistics.regimes import find_regimes

SEEDS = range(12)
EPOCH_OF_MONDAY = 1767571200.0


def event(day: int, hour: float = 9.0) -> EventMark:
    return EventMark(time=EPOCH_OF_MONDAY + 86400.0 * day + 3600.0 * hour, kind="reload", title=f"deploy on day {day}")


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda seed: series(flat, 28, seed=seed), 1),
        (lambda seed: series(flat, 90, seed=seed), 1),
        (lambda seed: series(flat, 90, seed=seed, noise=0.2), 1),
        (lambda seed: series(flat, 90, seed=seed, correlation=0.4), 2),
        (lambda seed: series(line(1.0), 90, seed=seed), 1),
        (lambda seed: series(line(-0.5), 90, seed=seed), 1),
        (lambda seed: series(lambda day: 100 * 4 ** (day / 90), 90, seed=seed), 1),
        (lambda seed: scaled(series(flat, 90, seed=seed), slice(40, 43), 0.3), 1),
        (lambda seed: scaled(series(flat, 90, seed=seed), slice(40, 54), 0.4), 1),
        (lambda seed: scaled(series(line(1.0), 90, seed=seed), slice(60, 61), 8.0), 1),
        (lambda seed: without(series(line(1.0), 90, seed=seed), np.r_[10:24, 50:53, 70]), 1),
    ],
    ids=[
        "4 weeks", "13 weeks", "noise", "correlated noise", "growth", "decline", "exponential", "holiday",
        "two weeks of holidays", "flood", "missing days",
    ],
)  # fmt: skip
def test_no_step_is_found_where_there_is_none(make: Callable[[int], DailyPeaks], most: int) -> None:
    """At most one series in twelve (two with correlated noise) has a second regime."""
    assert sum(len(find_regimes(make(seed)).spans) > 1 for seed in SEEDS) <= most


@pytest.mark.parametrize(
    ("days", "at", "factor", "per_day", "correlation"),
    [
        (90, 30, 1.5, 0.0, 0.0),
        (90, 60, 0.7, 0.0, 0.0),
        (120, 40, 1.6, 1.0, 0.0),
        (90, 45, 1.5, 0.0, 0.4),
        (90, 84, 1.5, 0.0, 0.0),
    ],
    ids=["up", "down", "with growth", "correlated noise", "six days ago"],
)
def test_a_step_is_found_on_its_day(days: int, at: int, factor: float, per_day: float, correlation: float) -> None:
    """In 11 of 12 series there is one step, within a day of its date and 0.1 of its size."""
    right = 0
    for seed in SEEDS:
        spans = find_regimes(series(step(at, factor, per_day), days, seed=seed, correlation=correlation)).spans
        right += (
            len(spans) == 2
            and abs(spans[1].first - MONDAY - at) <= 1
            and abs(spans[1].change - (factor - 1)) <= 0.1
            and not spans[1].bend
        )
    assert right >= 11


def test_regimes_tile_the_range() -> None:
    """Each regime starts the day after the one before, and has the median level without weekly pattern."""
    peaks = series(lambda day: np.select([day < 40, day < 80], [100.0, 150.0], 90.0), 120)
    spans = find_regimes(peaks).spans
    assert [span.first - MONDAY for span in spans] == [0, 40, 80]
    assert [span.last - MONDAY for span in spans] == [39, 79, 119]
    assert [span.level for span in spans] == pytest.approx([100.0, 150.0, 90.0], rel=0.05)
    assert [span.change for span in spans] == pytest.approx([np.nan, 0.5, -0.4], abs=0.05, nan_ok=True)
    assert [span.known for span in spans] == pytest.approx([40, 40, 40], abs=2)


def test_holidays_are_exceptions() -> None:
    """The days of a holiday week, and no others, are exceptions."""
    exceptions = find_regimes(scaled(series(flat, 90), slice(40, 50), 0.4)).exceptions
    assert [day - MONDAY for day in exceptions] == list(range(40, 50))


def test_a_level_that_comes_back_after_more_than_three_weeks_was_a_regime() -> None:
    """Thirty low days are two steps."""
    found = find_regimes(scaled(series(flat, 120), slice(40, 70), 0.5))
    assert [span.first - MONDAY for span in found.spans] == [0, 40, 70]
    assert found.exceptions == ()


def test_growth_that_starts_is_a_bend() -> None:
    """The change of a slope is a regime of its own, but no step."""
    spans = find_regimes(series(lambda day: 100 + 2.0 * np.maximum(day - 60, 0), 120)).spans
    assert len(spans) == 2
    assert spans[1].bend
    assert spans[1].first - MONDAY == pytest.approx(60, abs=10)


def test_an_event_explains_a_step() -> None:
    """The step is dated to the event and names it."""
    peaks = series(step(45, 1.3), 90, seed=2)
    spans = find_regimes(peaks, [event(12), event(45), event(70)]).spans
    assert [(span.first - MONDAY, span.event) for span in spans] == [(0, None), (45, event(45))]


def test_an_event_helps_to_find_a_small_step() -> None:
    """More small steps are found with their events than without; events alone make no steps."""

    def found(at: int, factor: float, events: list[EventMark]) -> int:
        return sum(
            len(find_regimes(series(step(at, factor), 60, seed=seed, noise=0.06), events).spans) > 1 for seed in SEEDS
        )

    assert found(45, 1.1, [event(45)]) > found(45, 1.1, [])
    assert found(45, 1.0, [event(45)]) <= 2


def test_daily_events_explain_nothing() -> None:
    """Where each day has a deploy, none is the cause, and results are as without."""
    peaks = series(step(45, 1.3), 90, seed=2)
    spans = find_regimes(peaks, [event(day) for day in range(90)]).spans
    assert [(span.first, span.event) for span in spans] == [(s.first, None) for s in find_regimes(peaks).spans]


def test_the_day_of_an_event_is_local() -> None:
    """An event at 23:30 UTC is on the next day in Berlin."""
    utc = series(step(45, 1.5), 90)
    berlin = peaks_of(utc.days, utc.peaks, ZoneInfo("Europe/Berlin"))
    late = event(45, 23.5)
    assert find_regimes(utc, [late]).spans[1].event == late
    assert find_regimes(berlin, [late]).spans[1].event is None


@pytest.mark.parametrize("values", [[], [3.0], [0.0] * 40, [3.0] * 40, [0.0, 5.0], [1e-300] * 30, [1e300] * 30])
def test_degenerate_series(values: list[float]) -> None:
    """Nothing, one day, zero and constants have at most one regime."""
    found = find_regimes(peaks_of(MONDAY + np.arange(len(values)), np.array(values)))
    assert len(found.spans) == min(len(values), 1)
    assert (found.present is None) == (not values)


def test_days_at_a_limit_are_no_regime() -> None:
    """A series that is cut off at its limit on half of the days, or hardly varies at all, has one regime."""
    for seed in SEEDS:
        peaks = series(flat, 90, seed=seed, week=np.ones(7))
        assert len(find_regimes(peaks_of(peaks.days, np.minimum(peaks.peaks, 100.0))).spans) == 1
        assert len(find_regimes(peaks_of(peaks.days, 1 + 1e-6 * np.floor(peaks.peaks / 10))).spans) == 1


def test_load_that_starts_from_nothing() -> None:
    """From 0 the step has no finite share."""
    spans = find_regimes(series(lambda day: np.where(day < 30, 0.0, 100.0), 60)).spans
    assert [span.first - MONDAY for span in spans] == [0, 30]
    assert spans[1].change == np.inf
