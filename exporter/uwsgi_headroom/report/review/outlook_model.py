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
    """A bin of quarter hours with about this concurrency: throughput in requests per second, response time in
    seconds, quarters: their number."""

    concurrency: float
    throughput: float
    response_time: float | None
    quarters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A fit of the Universal Scalability Law to one server. Each parameter with its interval of 95 %. residual: root
    mean square, relative to the throughput. peak: concurrency and throughput at the law's maximum, where it has one;
    beyond_data: whether that is beyond what was seen."""

    rate: tuple[float, float, float]
    contention: tuple[float, float, float]
    coherency: tuple[float, float, float]
    residual: float
    peak: tuple[float, float] | None
    beyond_data: bool
    line: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Throughput and response time of one server against concurrency. bounds: points of the asymptotic bounds."""

    server: str
    points: tuple[CurvePoint, ...]
    light: tuple[tuple[float, float], ...]
    heavy: tuple[tuple[float, float], ...]
    law: Law | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitForecast:
    """The forecast for one limit of a service. utilization: daily peaks by the time of the peak. line: time, expected,
    low and high. growth: in utilization per 30 days. crossing: when `REACHED` is expected, with the earliest and the
    latest; None: not within the horizon. error: of the back-test, mean absolute, in utilization."""

    limit: Limit
    growth: float
    growth_low: float
    growth_high: float
    since: float
    line: tuple[tuple[float, float, float, float], ...]
    crossing: float | None
    earliest: float | None
    latest: float | None
    error: float | None
    error_note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTrend:
    """The daily peaks of a limit's utilization, and the forecast, or why there is none."""

    limit: Limit
    peaks: tuple[tuple[float, float], ...]
    steps: tuple[tuple[float, float], ...]
    forecast: LimitForecast | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Trend and forecast of a service. until: how far it looks. first: the limit that is reached first."""

    limits: tuple[LimitTrend, ...]
    first: Limit | None
    horizon_days: float
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
    requests per second. errors: of the model against what was observed, relative."""

    server: str
    peak: float
    loads: tuple[float, ...]
    rows: tuple[SettingRow, ...]
    response_time_error: float | None
    p95_error: float | None
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

    title: str
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
