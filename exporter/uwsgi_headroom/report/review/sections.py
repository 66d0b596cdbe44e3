"""What a capacity review says: the figures and sentences of each section, ready to be written in any format.

All numbers are plain floats, None where a figure is unknown; times are epoch seconds, durations seconds, sizes bytes.
A section for which there is no data is an `Absent`, which says why. The JSON form of a report is made of these classes,
so their names are stable (docs/report.md). They come in the order of the sections; the whole is last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from uwsgi_headroom.analysis.capacity import Limit
from uwsgi_headroom.record import AdviceSeverity
from uwsgi_headroom.report.columns import EventMark, ReviewData

Judgement = Literal["act", "plan", "ok", "unknown"]
"""act: a limit is nearly full or users are harmed at peak. plan: not yet, but soon, or if a server is lost. unknown:
too little data."""

MOST_URGENT_FIRST: tuple[Judgement, ...] = ("act", "plan", "unknown", "ok")

Confidence = Literal["high", "medium", "low"]


class Absent(Struct, frozen=True, kw_only=True):
    """A section without content. reason: a sentence that says why."""

    reason: str


class Spread(Struct, frozen=True, kw_only=True):
    """Percentiles over the days of the range, of one figure in the busiest quarter hour of each day."""

    p50: float
    p95: float
    p99: float
    highest: float


class Verdict(Struct, frozen=True, kw_only=True):
    """Page one about a service. sentence: all in one. problem, users, when, action, gain, certainty: the answers;
    users: what they feel; gain: what the action brings, empty if nothing is to do; confidence: how sure, in a word."""

    judgement: Judgement
    sentence: str
    problem: str
    users: str
    when: str
    action: str
    gain: str
    certainty: str
    confidence: Confidence


class LimitUse(Struct, frozen=True, kw_only=True):
    """How much of a limit is used at peak. limit: as in `check`. capacity: in `unit`; used: the same, of the service in
    the quarter hour that counts. utilization: used over capacity, over the days. factor: headroom, by which load can
    grow before the limit. one_lost: utilization if the service lost one server; None for a single server."""

    limit: Limit
    unit: str
    capacity: float | None
    used: float | None
    utilization: Spread
    factor: float | None
    one_lost: float | None


class ServerPeak(Struct, frozen=True, kw_only=True):
    """One server in the service's quarter hour that counts. concurrency: mean threads in service. interpreters: those
    of active workers; their load: CPU seconds a second. cpu_*: CPUs. first: the limit that comes first; factor: its
    headroom; usable: that until requests wait; upper_bound: the CPU limit is unknown. more_workers: how many more fit
    into memory."""

    server: str
    requests: float | None
    response_time: float | None
    concurrency: float | None
    available: float | None
    configured: float | None
    workers: int
    hottest_worker: int | None
    hottest_interpreter: float | None
    interpreters: float | None
    cpus: float | None
    cpu_own: float | None
    cpu_others: float | None
    cpu_idle: float | None
    more_workers: int | None
    first: Limit | None
    factor: float | None
    usable: float | None
    upper_bound: bool
    unknown: str = ""
    """Why the headroom is not known, as a clause, if something other than the server's resources limits it."""


class Utilization(Struct, frozen=True, kw_only=True):
    """Use at peak. until: end of the quarter hour that counts (see `peaks`). days: how many days have a busiest quarter
    hour; 0: none is complete, so it is that of the range. exception: end and concurrency of a quarter hour that stands
    out and does not count. concurrency: of the service over the days; moments: busy over available threads, of the
    samples within these quarter hours. full: the largest share of their time in which a server had every thread busy.
    in_service, available, configured: threads of all servers in the quarter hour that counts. headroom: the smallest of
    all servers, with `first` and `server`; usable: the smallest until requests wait; one_lost: the headroom after the
    loss of the worst server, `lost_server`."""

    until: float
    days: int
    exception: tuple[float, float] | None
    concurrency: Spread
    moments: Spread | None
    full: float | None
    in_service: float | None
    available: float | None
    configured: float | None
    limits: tuple[LimitUse, ...]
    servers: tuple[ServerPeak, ...]
    headroom: float | None
    first: Limit | None
    server: str | None
    usable: float | None
    upper_bound: bool
    one_lost: float | None
    lost_server: str | None
    lone_server: bool
    unknown: str = ""
    """As of the first server whose headroom is not known."""


class ObjectiveUse(Struct, frozen=True, kw_only=True):
    """A service level objective over the range. bad: share of the requests that missed it; budget: the share
    of the range's error budget that they used (1 is all of it); at_peak: burn rate in the quarter hour that counts."""

    threshold: float
    objective: float
    requests: float
    bad: float
    budget: float
    at_peak: float | None


class HeatMap(Struct, frozen=True, kw_only=True):
    """A figure by weekday (7 rows, Monday first) and hour (24 columns); None where there is no data."""

    title: str
    unit: str
    rows: tuple[tuple[float | None, ...], ...]


class Users(Struct, frozen=True, kw_only=True):
    """What users felt. At peak: in the quarter hour that counts. percentiles: response times in seconds by name
    (`p95`), over the range and at peak. mean: of response times; queue_wait: mean seconds in the listen queue.
    requests, lost: numbers over the range; overflows: dropped TCP connections in the quarter hours in which the
    server's own queue was full; overflows_elsewhere: all other ones of the hosts' network namespaces, which may be
    those of other listeners; queue_full: share of the time with a full queue, of the server with most."""

    requests: float
    mean: float | None
    mean_at_peak: float | None
    percentiles: Mapping[str, float]
    percentiles_at_peak: Mapping[str, float]
    queue_wait: float | None
    queue_wait_at_peak: float | None
    queue_full: float | None
    overflows: float | None
    overflows_elsewhere: float | None
    lost: float | None
    harakiris: float | None
    exceptions: float | None
    objective: ObjectiveUse | Absent
    load: HeatMap | Absent
    response_time: HeatMap | Absent


class WorkerShare(Struct, frozen=True, kw_only=True):
    """A worker at peak: its share of its server's requests, response time, interpreter load, mean busy threads."""

    worker: int
    share: float | None
    response_time: float | None
    interpreter: float | None
    concurrency: float | None


class ServerBalance(Struct, frozen=True, kw_only=True):
    """Balance of a server's workers in the quarter hour that counts. share: the server's share of the service's
    requests. hot_ratio, noise_floor, cost: as in `analysis.balance`; cost_seconds: the response time that balancing
    would save. cost_servers: the part of this server that unevenness wastes, 0 to 1."""

    server: str
    share: float | None
    workers: tuple[WorkerShare, ...]
    hottest: int | None
    hot_ratio: float | None
    noise_floor: float | None
    cost: float | None
    cost_seconds: float | None
    cost_servers: float | None


class BalanceReview(Struct, frozen=True, kw_only=True):
    """Balance of a service. cost_seconds: mean over its requests; cost_servers: summed over its servers. summary: the
    worst server in a sentence."""

    servers: tuple[ServerBalance, ...]
    cost_seconds: float | None
    cost_servers: float | None
    summary: str


class Part(Struct, frozen=True, kw_only=True):
    """A part of the time of requests at peak: mean threads, and seconds of a mean request."""

    name: str
    threads: float
    per_request: float | None
    share: float


class TimeUse(Struct, frozen=True, kw_only=True):
    """Where the time goes. states, backends, routes: largest first, or why they are unknown. cpu_per_request: CPU
    seconds."""

    response_time: float | None
    cpu_per_request: float | None
    states: tuple[Part, ...] | Absent
    backends: tuple[Part, ...] | Absent
    routes: tuple[Part, ...] | Absent


class LimitForecast(Struct, frozen=True, kw_only=True):
    """The forecast of the daily peaks of a limit's utilization.

    per_month: growth in 30 days as a share of the present level, with the ends of its interval; direction: none if the
    interval contains 0. level: expected now on the busiest day of a week. fitted: time and trend; ahead: time,
    expected, low and high. reached: all of the limit was in use in the last week. crossing: when it is expected to be,
    with the earliest and the latest day; None: not within the horizon.
    """

    direction: str
    per_month: float
    per_month_low: float
    per_month_high: float
    level: float
    horizon_days: int
    fitted: tuple[tuple[float, ...], ...]
    ahead: tuple[tuple[float, ...], ...]
    reached: bool
    crossing: float | None
    earliest: float | None
    latest: float | None
    notes: tuple[str, ...]


class LimitTrend(Struct, frozen=True, kw_only=True):
    """The daily peaks (time, utilization) of a limit, and the forecast, or why there is none."""

    limit: Limit
    peaks: tuple[tuple[float, float], ...]
    forecast: LimitForecast | Absent


class Trend(Struct, frozen=True, kw_only=True):
    """Trend and forecast of a service. first: the limit that is reached first, None if none is within the horizon.
    days: with a known peak; days_unlike_today: those of them with other threads or CPUs, which do not count.
    events: those that may have changed the level."""

    limits: tuple[LimitTrend, ...]
    first: Limit | None
    days: int
    days_left_out: int
    days_unlike_today: int
    events: tuple[EventMark, ...]


class SettingRow(Struct, frozen=True, kw_only=True):
    """A setting in the what-if table. most_throughput: requests per second that it serves at least; of today's setting,
    the load at peak times the headroom. response_times: for each load, in seconds; None: not sustained or unknown."""

    setting: str
    is_today: bool
    most_throughput: float
    limit: str
    response_times: tuple[float | None, ...]
    sustained: tuple[bool, ...]
    memory: float | None
    fits: bool | None


class WhatIfReview(Struct, frozen=True, kw_only=True):
    """Predictions for one server, the one that reaches a limit first. loads: multiples of the peak load of `peak`
    requests per second. response_time_error: of the model against what was observed, relative. demands_measured:
    whether the demands of a request come from wait states."""

    server: str
    peak: float
    loads: tuple[float, ...]
    rows: tuple[SettingRow, ...]
    response_time_error: float | None
    demands_measured: bool
    cautions: tuple[str, ...]


class Recommendation(Struct, frozen=True, kw_only=True):
    """One thing to do. code: of the finding in `check` that it comes from; judgement: how urgent; harms: what users
    felt of the same cause, a sentence or two each; setting: the processes x threads that it advises, and serves: the
    requests per second that a server then serves at least, if these are known."""

    code: str
    judgement: Judgement
    title: str
    action: str
    servers: tuple[str, ...]
    setting: str
    serves: float | None
    evidence: str
    harms: tuple[str, ...]
    effect: str
    verify: str
    roll_back: str


class SettingAdvice(Struct, frozen=True, kw_only=True):
    """What a rule of `uwsgi-headroom review` says. servers: those about whose settings; the texts are those of the
    rule, empty if this version does not have it. lines: to write into the configuration, with examples of numbers;
    change: what to do if a line is not enough; needs: the first version of uWSGI that has the lines, empty if all have;
    unless: when it does not matter."""

    rule: str
    severity: AdviceSeverity
    title: str
    reason: str
    change: str
    lines: tuple[str, ...]
    needs: str
    unless: str
    servers: tuple[str, ...]


class SettingsReview(Struct, frozen=True, kw_only=True):
    """What will cause trouble in the settings, or may, those that will first. unknown: servers whose settings were not
    reviewed."""

    advice: tuple[SettingAdvice, ...]
    unknown: tuple[str, ...]


class ServiceReview(Struct, frozen=True, kw_only=True):
    """One service: all sections."""

    service: str
    servers: tuple[str, ...]
    verdict: Verdict
    utilization: Utilization | Absent
    users: Users | Absent
    balance: BalanceReview | Absent
    time: TimeUse | Absent
    trend: Trend | Absent
    what_if: WhatIfReview | Absent
    recommendations: tuple[Recommendation, ...]
    settings: SettingsReview | Absent


class ServerQuality(Struct, frozen=True, kw_only=True):
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


class Review(Struct, frozen=True, kw_only=True):
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
