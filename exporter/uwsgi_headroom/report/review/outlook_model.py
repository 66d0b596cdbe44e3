"""What a capacity review says about the future and about what to do; the rest of the model."""

from __future__ import annotations

from dataclasses import dataclass

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.report.model import EventMark, ReviewData
from uwsgi_headroom.report.review.model import (
    Absent,
    BalanceReview,
    Judgement,
    TimeUse,
    Users,
    Utilization,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A bin of quarter hours with about this concurrency. throughput: requests per second, with the 10th and the 90th
    percentile of the quarter hours; response_time: seconds; quarters: their number; the bounds: asymptotic ones at this
    concurrency; fitted: throughput by the Universal Scalability Law."""

    concurrency: float
    throughput: float
    throughput_low: float
    throughput_high: float
    response_time: float | None
    quarters: int
    throughput_bound: float | None
    response_time_bound: float | None
    fitted: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """The fit of the Universal Scalability Law. Each parameter: value, low and high. error: root mean square of the
    residuals over the mean throughput. peak: the concurrency of the most throughput, with its interval; None: the law
    has none. beyond_data: it is beyond what was observed, so an extrapolation."""

    rate: tuple[float, float, float]
    contention: tuple[float, float, float]
    coherency: tuple[float, float, float]
    error: float
    explained: float
    peak: tuple[float, float, float] | None
    most_throughput: tuple[float, float, float] | None
    beyond_data: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Throughput and response time of one server, the one that reaches a limit first, against concurrency.
    base_response_time: at little load; largest_demand: seconds of a request at its bottleneck, `bottleneck`; knee: the
    concurrency from which requests must wait. cautions: what a reader should know."""

    server: str
    points: tuple[CurvePoint, ...]
    base_response_time: float | None
    bottleneck: str | None
    largest_demand: float | None
    knee: float | None
    law: Law | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change of level that is not growth. change: as a share of the level before; bend: the growth changed instead.
    event: the title of the event taken for the cause."""

    time: float
    change: float | None
    bend: bool
    event: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackTestError:
    """The forecast of the last quarter of the range from the first three quarters, against what happened. error,
    naive_error: mean of |forecast - actual| / actual, of this forecast and of `the same day of last week`. bias: the
    mean with its sign. inside: share of the days within the interval. changed: the level changed in between."""

    days: int
    fitted_days: int
    error: float
    naive_error: float
    bias: float
    inside: float
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitForecast:
    """The forecast of the daily peaks of a limit's utilization.

    per_month: growth in 30 days as a share of the present level, with the ends of its interval; direction: none if the
    interval contains 0. level: expected now on the busiest day of a week. since: start of the present regime.
    fitted: time and trend; ahead: time, expected, low and high. steps: before the present regime.
    reached: the limit (`analysis.capacity.REACHED`) was reached in the last week. crossing: when it is expected to be,
    with the earliest and the latest day; None: not within the horizon.
    """

    direction: str
    per_month: float
    per_month_low: float
    per_month_high: float
    level: float
    since: float | None
    horizon_days: int
    fitted: tuple[tuple[float, ...], ...]
    ahead: tuple[tuple[float, ...], ...]
    steps: tuple[Step, ...]
    reached: bool
    crossing: float | None
    earliest: float | None
    latest: float | None
    back_test: BackTestError | Absent
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTrend:
    """The daily peaks (time, utilization) of a limit, and the forecast, or why there is none."""

    limit: Limit
    peaks: tuple[tuple[float, float], ...]
    forecast: LimitForecast | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Trend and forecast of a service. first: the limit that is reached first, None if none is within the horizon.
    events: those that may have changed the level."""

    limits: tuple[LimitTrend, ...]
    first: Limit | None
    days: int
    days_left_out: int
    events: tuple[EventMark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """A setting in the what-if table. at: for each load, response time and p95 in seconds; None: not sustained or
    unknown."""

    setting: str
    is_today: bool
    most_throughput: float
    limit: str
    response_times: tuple[float | None, ...]
    p95: tuple[float | None, ...]
    sustained: tuple[bool, ...]
    memory: float | None
    fits: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfReview:
    """Predictions for one server, the one that reaches a limit first. loads: multiples of the peak load of `peak`
    requests per second. errors: of the model against what was observed, relative. demands_measured: whether the demands
    of a request come from wait states."""

    server: str
    peak: float
    loads: tuple[float, ...]
    rows: tuple[SettingRow, ...]
    response_time_error: float | None
    p95_error: float | None
    demands_measured: bool
    cautions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """One thing to do. code: of the finding in `check` that it comes from; judgement: how urgent."""

    code: str
    judgement: Judgement
    title: str
    action: str
    servers: tuple[str, ...]
    evidence: str
    effect: str
    verify: str
    roll_back: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReview:
    """One service: all sections."""

    service: str
    servers: tuple[str, ...]
    verdict: Verdict
    utilization: Utilization | Absent
    users: Users | Absent
    balance: BalanceReview | Absent
    time: TimeUse | Absent
    curve: Curve | Absent
    trend: Trend | Absent
    what_if: WhatIfReview | Absent
    recommendations: tuple[Recommendation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerQuality:
    """How complete a server's data is. covered: share of the range; first, last: of its data; gaps: the longest times
    without data, start and end; unknown: names of figures without a value."""

    server: str
    service: str
    host: str
    covered: float
    first: float | None
    last: float | None
    gaps: tuple[tuple[float, float], ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A capacity review. judgement, answer: of all services together. problems: about the data, as sentences."""

    since: float
    until: float
    time_zone: str
    source: str
    partial: bool
    judgement: Judgement
    answer: str
    services: tuple[ServiceReview, ...]
    quality: tuple[ServerQuality, ...]
    problems: tuple[str, ...]
    data: ReviewData
