"""Back-test: forecasts the last quarter of the range from the first three quarters, and compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uwsgi_headroom.report.model import EventMark
from uwsgi_headroom.report.statistics.local_time import Floats, Integers
from uwsgi_headroom.report.statistics.peaks import DailyPeaks
from uwsgi_headroom.report.statistics.refusal import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class BackTest:
    """A forecast of days that have passed, against what happened.

    days: ordinals of the compared days; expected, lower, upper, actual, naive: their peaks. naive: the peak of the same
    day of the week in the last week before the forecast.
    error, naive_error: mean of |forecast - actual| / actual. bias: mean of (forecast - actual) / actual; above 0 the
    forecast was too high. inside: share of the days within the prediction interval.
    changed: the level changed in a step within the compared days, which no forecast can know.
    fitted_days: days from the first to the last that the forecast was made from.
    """

    days: Integers
    expected: Floats
    lower: Floats
    upper: Floats
    actual: Floats
    naive: Floats
    error: float
    naive_error: float
    bias: float
    inside: float
    changed: bool
    fitted_days: int


def back_test(peaks: DailyPeaks, events: Sequence[EventMark] = ()) -> BackTest | Refusal:
    """Forecast the last quarter of the range from the first three quarters.

    Days with a peak of 0 are not compared. Refused if the first three quarters do not suffice for a forecast.
    """
    raise NotImplementedError
