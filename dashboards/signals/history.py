"""Figures of the last months for a capacity review, from the daily figures of the recording rules."""

from __future__ import annotations

from itertools import pairwise

from dashboards.signal import (
    BY_SERVER,
    BY_SERVICE,
    FLEET,
    FORECAST_DAYS,
    HEADROOM_LOW,
    RANGE,
    TIMES,
    Series,
    Signal,
    in_words,
    signal,
    with_service,
)
from dashboards.signals.waits import LEAST_SHOWN, in_order

DAY = 86400
_RULES = "Empty until the first midnight UTC, and without the rules of alerts/rules/recording.yaml."
_PEAK = FLEET.of("server:uwsgi_utilization:max1d")
_P95 = FLEET.of("server:uwsgi_utilization:p95_1d")
_LEAST = FLEET.of("server:uwsgi_headroom:min1d")
_REQUESTS = FLEET.of("server:uwsgi_requests:max1d")
_DAILY = "[$__range:1d]"
_MIDNIGHT = "A point at midnight UTC is the day that ended then; today is shown once it is over."
_WORST = f"max {BY_SERVICE} ({with_service(_P95)})"

USED = signal(
    "Peak of threads busy",
    "percentunit",
    f"""The highest utilization of any chosen server in the time range: mean requests in service as a part of the
    threads, over the recording window. {_RULES}""",
    Series(f"max(max_over_time({_PEAK}{RANGE}))", "peak", now=True),
)
USUAL = signal(
    "Busy days: threads busy",
    "percentunit",
    f"""On the fullest server: on 95 % of the days, utilization was at most this high for 95 % of the time. {_RULES}""",
    Series(f"max(quantile_over_time(0.95, {_P95}{RANGE}))", "p95", now=True),
)
HEADROOM = signal(
    "Least headroom",
    TIMES,
    f"""The least headroom in the time range, its server and its limit: the factor by which load could still have grown
    at that moment. {_RULES}""",
    Series(in_words(f"bottomk(1, min_over_time({_LEAST}{RANGE}))"), "{{limit}}: {{server}} on {{instance}}", now=True),
)
GROWTH = signal(
    "Growth in 30 days",
    "percentunit",
    f"""Slope of the trend line of the day's p95 of threads busy, for the service that grows most, as a part of its
    threads: 10 % means from 40 % to 50 % in 30 days. {_RULES}""",
    Series(f"max(deriv(({_WORST}){_DAILY})) * {30 * DAY}", "most", now=True),
)
DAYS = signal(
    "Days recorded",
    "none",
    f"""Complete days with figures in the time range, on which all of this dashboard is based. 0 until the first
    midnight UTC. {_RULES}""",
    Series(f"max(count_over_time(({_WORST}){_DAILY})) or 0 * count({_PEAK})", "days", now=True),
)
DAILY = signal(
    "Threads busy: the day's p95 and peak",
    "percentunit",
    f"""The fullest server of each service: the filled line is the value below which it stayed for 95 % of the day, the
    dots are its peak. {_MIDNIGHT} {_RULES}""",
    Series(_WORST, "{{service}} p95"),
    Series(f"max {BY_SERVICE} ({with_service(_PEAK)})", "{{service}} peak"),
)
HEADROOMS = signal(
    "Headroom: the day's least",
    TIMES,
    f"The worst server of each service, on a logarithmic scale. {_MIDNIGHT} {_RULES}",
    Series(f"min {BY_SERVICE} ({with_service(_LEAST)})", "{{service}}"),
)

_OBJECTIVE = "uwsgi_slo_objective_ratio"
_SERVED = FLEET.of("server:uwsgi_slo_requests:rate1d")
_SHARE = FLEET.of("server:uwsgi_slo_bad_requests:ratio_rate1d")
_EVERY = f"(sum {BY_SERVICE} ({with_service(_SERVED)}) > 0)"
_BAD = f"sum {BY_SERVICE} ({with_service(f'{_SHARE} * {_SERVED}')})"
_PERMITTED = f"sum {BY_SERVICE} ({with_service(f'{_SERVED} * (1 - {FLEET.of(_OBJECTIVE)})')})"
"""Requests per second of each service: all, the bad ones, and those that the objectives of its servers permit."""
_JUDGED = "Only of servers with an objective (the exporter's option --slo), with the mean wait in the listen queue."
GOOD = signal(
    "Good requests, day by day",
    "percentunit",
    f"""Requests of each service that were served within the threshold and not lost, and the dashed line that the
    objective asks for. {_JUDGED} {_MIDNIGHT} {_RULES}""",
    Series(f"1 - {_BAD} / {_EVERY}", "{{service}}"),
    Series(f"1 - {_PERMITTED} / {_EVERY}", "{{service}} objective"),
)
BURN = signal(
    "Burn rate: the day's",
    TIMES,
    f"""Bad requests of the day divided by those that the objectives permit. Above 1x for a month, the objective is
    missed. {_JUDGED} {_MIDNIGHT} {_RULES}""",
    Series(f"{_BAD} / ({_PERMITTED} > 0)", "{{service}}"),
)
_MONTH = "[29d1h:1d]"
"""Thirty midnights, whether or not Prometheus counts the start of a range."""
BUDGET = signal(
    "Error budget left of 30 days",
    "percentunit",
    f"""What is left of the bad requests that the objectives permit in the 30 days before each point; on days without
    figures, the objectives count as met. Below 0 %, the objective was missed. {_JUDGED} {_MIDNIGHT} {_RULES}""",
    Series(
        f"1 - sum_over_time(({_BAD}){_MONTH})\n/ (30 * avg_over_time(({_PERMITTED}){_MONTH}) > 0)",
        "{{service}}",
    ),
)
QUEUE_WAIT = signal(
    "Wait in the listen queue: the day's p95",
    "s",
    f"""The server of each service where requests waited longest: for 95 % of the day, the mean wait was at most this
    high. Users wait this long in addition to the response time that the objective judges. {_MIDNIGHT} {_RULES}""",
    Series(f"max {BY_SERVICE} ({with_service(FLEET.of('server:uwsgi_queue_wait_seconds:p95_1d'))})", "{{service}}"),
)

_WAITS = f"sum by (state) ({FLEET.of('server:uwsgi_wait_threads:avg1d')})"
_MOST = f"max_over_time(({_WAITS}){_DAILY} @ end())"
_SEEN = f"and on (state) {_MOST} > on () group_left () {LEAST_SHOWN} * sum({_MOST})"
_SEEING = """Only of servers whose exporter may see what uWSGI's threads wait for: it needs CAP_SYS_PTRACE and
CAP_DAC_READ_SEARCH, as docs/waits.md says."""
WAIT_SHARES = signal(
    "Share of the time of requests by state",
    "percentunit",
    f"""What the requests of all chosen servers spent the day on, as parts of their time in service. If a band grows,
    find out why before it is the largest. {_SEEING} {_MIDNIGHT} {_RULES}""",
    Series(in_order(f"{_WAITS} / on () group_left () (sum({_WAITS}) > 0)\n{_SEEN}"), "{{state}}"),
)
WAIT_THREADS = signal(
    "Threads by state: the day's mean",
    "none",
    f"""The same in threads of all chosen servers together: what has grown with the load, and what faster than it.
    {_SEEING} {_MIDNIGHT} {_RULES}""",
    Series(in_order(f"{_WAITS}\n{_SEEN}"), "{{state}}"),
)


def trend() -> Signal:
    """The day's p95 and the least-squares line through it: its mean, plus its slope times the distance from the mean
    time. (`predict_linear` with `@ end()` gives no straight line, because each step has other samples.)
    """
    days = f"({_WORST}){_DAILY} @ end()"
    times = f"({_WORST} * 0 + time()){_DAILY} @ end()"
    return signal(
        "Trend of the day's p95",
        "percentunit",
        f"""The day's p95 of the fullest server of each service, and its trend line if there are at least
        {FORECAST_DAYS} days. For a forecast, choose a time range that ends in the future (now-90d to
        now+30d): the line continues. {_MIDNIGHT} {_RULES}""",
        Series(_WORST, "{{service}}"),
        Series(
            f"avg_over_time({days}) + deriv({days}) * (time() - avg_over_time({times}))\n"
            f"and count_over_time({days}) >= {FORECAST_DAYS}",
            "{{service}} trend",
        ),
    )


def _most(daily: str) -> str:
    return with_service(f"max_over_time({daily}{RANGE})")


def week() -> Signal:
    """Utilization by weekday and hour: every half hour gets the number of its hour in the week as a label, and equal
    labels are one series. (1113 is Tuesday at 13; one label joins faster than two.)
    """
    local = "vector(time() + 3600 * $utc_offset)"
    hour = f"1000 + (day_of_week({local}) + 6) % 7 * 100 + hour({local})"
    busy = FLEET.of("server:uwsgi_utilization:ratio_rate5m")
    expression = f"""
label_replace(label_replace(
  quantile_over_time(0.95, (max({busy}) * on () group_left (moment) count_values("moment", {hour}))[$__range:30m]),
  "weekday", "$1", "moment", "1(.)..")
, "hour", "$1", "moment", "1.(..)")
"""
    expression = f"sum by (weekday, hour) ({expression.strip()})"
    return signal(
        "When it is busy: weekday and hour",
        "percentunit",
        f"""Threads busy on the fullest chosen server: the value below which it stayed for 95 % of that hour of the
        week, over the whole time range. Hours are UTC plus the offset that is chosen above. {_RULES}""",
        Series(expression, now=True),
    )


def days_by_headroom() -> Signal:
    """Server-days in bands of headroom; one band begins at the rules' threshold of low headroom."""
    bounds = [1.0, HEADROOM_LOW, 2.0, 5.0]
    least = f"min {BY_SERVER} ({with_service(_LEAST)})"

    def days(name: str, condition: str) -> Series:
        every = f"sum(count_over_time(({least}){_DAILY}))"
        return Series(f"sum(count_over_time(({least} {condition}){_DAILY})) or 0 * {every}", name, now=True)

    return signal(
        "Headroom, day by day",
        "none",
        f"""Days of all chosen servers by the least headroom of the day: how often a limit was close, not only how
        close. Days without load have no headroom. {_RULES}""",
        days(f"below {bounds[0]:g}x", f"< {bounds[0]:g}"),
        *(days(f"{low:g}x to {high:g}x", f">= {low:g} < {high:g}") for low, high in pairwise(bounds)),
        days(f"{bounds[-1]:g}x and more", f">= {bounds[-1]:g}"),
    )


def minutes() -> Signal:
    """A table with a line for each server, for the minutes of a meeting."""
    p95 = f"max {BY_SERVER} ({with_service(_P95)})"
    lowest = in_words(with_service(f"min_over_time({_LEAST}{RANGE})"))
    enough = f"count_over_time(({p95}){_DAILY}) >= {FORECAST_DAYS}"
    return signal(
        "For the minutes",
        "none",
        f"""A line for each server, the least headroom first. Over the time range: the least headroom and its limit,
        threads busy in the worst day's p95 and at the peak, most requests per second, and the growth of the p95 in 30
        days (as a part of its threads; with at least {FORECAST_DAYS} days of history). To copy the table:
        panel menu, Inspect, Data. {_RULES}""",
        Series(
            f"sort(sum {BY_SERVER.replace(')', ', limit)')} (bottomk {BY_SERVER} (1, {lowest})))",
            "Least headroom",
            now=True,
        ),
        Series(f"max {BY_SERVER} ({_most(_P95)})", "Busiest day's p95", now=True),
        Series(f"max {BY_SERVER} ({_most(_PEAK)})", "Peak", now=True),
        Series(f"max {BY_SERVER} ({_most(_REQUESTS)})", "Most requests", now=True),
        Series(f"deriv(({p95}){_DAILY}) * {30 * DAY} and {enough}", "Growth in 30 days", now=True),
        Series(f"count_over_time(({p95}){_DAILY})", "Days", now=True),
    )
