"""Daily peaks, their weekly pattern and trend, and the day on which they reach a limit."""

from collections.abc import Callable, Collection, Sequence
from datetime import date, datetime
from math import sqrt
from random import Random
from statistics import fmean
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from uwsgi_headroom.report.forecast import DailyPeaks, Forecast, daily_peaks, forecast_peaks, weekly_pattern
from uwsgi_headroom.report.quarters import STEP

MONDAY = date(2026, 1, 5).toordinal()
WEEK = (1.05, 1.1, 1.08, 1.06, 0.98, 0.55, 0.5)
"""A weekly pattern, Monday first."""

Level = Callable[[int], float]


class Series(NamedTuple):
    """Ordinals of days, and their peaks."""

    days: Sequence[int]
    peaks: Sequence[float]


def series(
    level: Level,
    days: int,
    *,
    seed: int = 0,
    noise: float = 0.05,
    correlation: float = 0.0,
    week: Sequence[float] = WEEK,
) -> Series:
    """Peaks of level(0..days-1) times a weekly pattern, times noise of a standard deviation as a share of the level.

    correlation: of the noise of neighbouring days, an AR(1) process."""
    random, state, peaks = Random(seed), 0.0, []
    for day in range(-30, days):
        state = correlation * state + sqrt(1 - correlation**2) * random.gauss(0, 1)
        if day >= 0:
            peaks.append(max(0.0, level(day) * week[day % 7] / (sum(week) / 7) * (1 + noise * state)))
    return Series(range(MONDAY, MONDAY + days), peaks)


def without(known: Series, gone: Collection[int]) -> Series:
    """The same without the days at these places."""
    kept = [place for place in range(len(known.days)) if place not in gone]
    return Series([known.days[place] for place in kept], [known.peaks[place] for place in kept])


def scaled(known: Series, places: Collection[int], factor: float) -> Series:
    """The same with the days at these places times a factor."""
    peaks = [factor * peak if place in places else peak for place, peak in enumerate(known.peaks)]
    return Series(known.days, peaks)


def flat(_day: int) -> float:
    """A level of 100."""
    return 100.0


def line(per_day: float) -> Level:
    """100 on the first day, plus so much per day."""
    return lambda day: 100.0 + per_day * day


def step(at: int, factor: float) -> Level:
    """A level of 100 with a step."""
    return lambda day: 100.0 * (factor if day >= at else 1.0)


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
    [(line(1.0), (), 30 / 189), (line(-0.5), (), -15 / 55.5), (line(1.0), range(30, 38), 30 / 189)],
    ids=["growth", "decline", "holiday"],
)
def test_the_slope(level, change, per_month):
    """Growth in 30 days as a share of the last level, within 0.03 on average and inside its interval in 10 of 12."""
    found = [forecast(scaled(series(level, 90, seed=seed), change, 0.4)) for seed in SEEDS]
    assert fmean(each.per_month for each in found) == pytest.approx(per_month, abs=0.03)
    assert sum(each.per_month_low <= per_month <= each.per_month_high for each in found) >= 10
    assert {each.direction for each in found} == {"growth" if per_month > 0 else "decline"}


def test_nothing_declines_by_more_than_all_of_it():
    """100 falls by 1.7 a day: of the 6.5 that are left on the last day, 30 times as much would be -785 %."""
    found = forecast(series(line(-1.7), 56))
    assert (found.per_month_low, found.per_month) == (-1.0, -1.0)


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
