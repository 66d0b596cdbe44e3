"""How sure a verdict is: from the days with a known peak, the share of the range measured, and the back-test."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.report.model import STEP
from uwsgi_headroom.report.review.model import Absent, Confidence, Utilization
from uwsgi_headroom.report.review.outlook_model import BackTestError, LimitForecast, LimitTrend, ServerQuality, Trend
from uwsgi_headroom.words.formats import duration, percent

FEW_DAYS, MANY_DAYS = 7, 28
"""Days with a known peak: below the first, confidence is low; from the second on, it may be high."""

WELL_COVERED, HALF_COVERED = 0.9, 0.5
"""Share of the range with data: from the first on, confidence may be high; below the second, it is low."""

SMALL_ERROR = 0.1
"""Error of the back-test up to which confidence may be high."""


def find_confidence(
    used: Utilization, trend: Trend | Absent, quality: Sequence[ServerQuality], *, partial: bool
) -> tuple[Confidence, list[str]]:
    """How sure, in a word, and why, as clauses. quality: of the service's servers; partial: the source failed."""
    covered = min((each.covered for each in quality), default=0.0)
    first = min((each.first for each in quality if each.first is not None), default=None)
    last = max((each.last for each in quality if each.last is not None), default=None)
    length = duration(max(STEP, (last or 0.0) - (first or 0.0))) if first is not None else "no data"
    days = f"{used.days} days with a known peak" if used.days else f"{length} of data, no complete day"
    reasons = [days, f"{percent(covered)} of the range measured"]
    error = _error(trend)
    if error is not None:
        reasons.append(f"a forecast made earlier would have been wrong by {percent(error)}")
    elif isinstance(trend, Trend) and horizon_of(trend) is not None:
        reasons.append("the forecast could not be tested on the past")
    else:
        reasons.append("no forecast")
    if used.upper_bound:
        reasons.append("CPU use is not known on every server, so headroom may be less")
    if partial:
        reasons.append("the source failed halfway")
    weak = used.days < FEW_DAYS or covered < HALF_COVERED or partial
    strong = used.days >= MANY_DAYS and covered >= WELL_COVERED and not used.upper_bound
    if weak:
        return "low", reasons
    return ("high" if strong and error is not None and error <= SMALL_ERROR else "medium"), reasons


def _error(trend: Trend | Absent) -> float | None:
    """The error of the back-test: of the limit that comes first, else the largest."""
    if isinstance(trend, Absent):
        return None
    errors = {
        each.limit: each.forecast.back_test.error
        for each in trend.limits
        if isinstance(each.forecast, LimitForecast) and isinstance(each.forecast.back_test, BackTestError)
    }
    if trend.first is not None and trend.first in errors:
        return errors[trend.first]
    return max(errors.values(), default=None)


def horizon_of(trend: Trend) -> int | None:
    """The days that all forecasts look ahead; None if that of the fullest limit is refused."""
    fullest = fullest_of(trend)
    known = [each.forecast.horizon_days for each in trend.limits if isinstance(each.forecast, LimitForecast)]
    return min(known) if isinstance(fullest.forecast, LimitForecast) else None


def fullest_of(trend: Trend) -> LimitTrend:
    """The limit with the highest peak."""
    return max(trend.limits, key=lambda each: max((peak for _, peak in each.peaks), default=0.0))
