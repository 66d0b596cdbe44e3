"""All servers and services by headroom, to decide which one to inspect first.

Uses the exporter's windowed figures, and so needs no recording rules.
"""

from __future__ import annotations

from dashboards.signal import (
    BY_SERVER,
    BY_SERVICE,
    COARSE,
    FLEET,
    TIMES,
    WINDOW,
    Series,
    in_words,
    signal,
    with_service,
)
from dashboards.signals.verdict import RANKED
from uwsgi_headroom.history.response_times.bins import BUCKET_BOUNDS

_LEAST = """Headroom is the factor by which load can grow before a limit is reached; at 1x the limit is reached. The
least of the four limits counts. A limit of which less than 1 % is used has no meaningful headroom, so an idle server
has none."""
_WAIT = "Until requests wait: the factor by which it can grow before they do; at 1x or less they begin to."
_LINES = 12
"""Servers in a graph: more lines would be illegible."""


def _of(metric: str, *more: str, at: str = "") -> str:
    return with_service(FLEET.of(metric, *more) + at)


def _least(by: str) -> str:
    """The limit with the least headroom of each group. Keeps labels by name, so that the columns are fixed."""
    least = in_words(f"bottomk {by} (1, {_HEADROOM})")
    return f"sort(sum {by.replace(')', ', limit)')} ({least}))"


_HEADROOM = _of("uwsgi_headroom_ratio", WINDOW)
_USABLE = _of("uwsgi_usable_headroom_ratio", WINDOW)
UNTIL_WAIT = "Until requests wait"
"""The name of the column of the usable headroom."""
_REQUESTS = _of("uwsgi_throughput_requests_per_second", WINDOW)
_OBSERVED = _of("uwsgi_concurrency", WINDOW, 'method="observed"')
_LITTLES_LAW = _of("uwsgi_concurrency", WINDOW, 'method="littles_law"')
_CEILING = _of("uwsgi_threads_ceiling")
_COST = _of("uwsgi_unevenness_cost_ratio", WINDOW)
_QUEUE_WAIT = _of("uwsgi_queue_wait_seconds", WINDOW)
_UP = _of("uwsgi_up")
_SERVER = "{{server}} on {{instance}}"

_TIME = _of("uwsgi_mean_response_time_seconds", WINDOW)
_TIME_BY_SERVICE = (
    f"sum {BY_SERVICE} ({_LITTLES_LAW} and ignoring (method) {_TIME})\n"
    f"/ sum {BY_SERVICE} ({_LITTLES_LAW} / ignoring (method) ({_TIME} > 0))"
)
"""Total time divided by the requests that took time: by Little's law, L / W of them per second."""


_BOUNDS = "|".join(f"{bound:g}|{bound}" if bound % 1 == 0 else f"{bound:g}" for bound in BUCKET_BOUNDS)
_COMMON = f'le=~"{_BOUNDS}|[+]Inf"'
"""Matches the bounds that every server has. The threshold of an objective is another bound of one server: in a sum over
servers, its bucket would count the requests of this server only."""
_BUCKETS = with_service(FLEET.over("uwsgi_response_time_seconds_bucket", "$window", _COMMON))
_COMPLETED = with_service(FLEET.over("uwsgi_response_time_seconds_count", "$window"))


def _percentile(share: float) -> str:
    """A percentile of each service, from the sum of the histograms of its servers."""
    return f"histogram_quantile({share:g}, sum by (service, le) ({_BUCKETS}))\nand sum {BY_SERVICE} ({_COMPLETED}) > 0"


def _burning(window: str) -> str:
    """The burn rate of each service: all bad requests, divided by all that the objectives of its servers permit."""
    bad, every = (FLEET.over(f"uwsgi_slo_{what}_total", window) for what in ("bad_requests", "requests"))
    permitted = with_service(f"{every} * (1 - {FLEET.of('uwsgi_slo_objective_ratio')})")
    return f"sum {BY_SERVICE} ({with_service(bad)}) / (sum {BY_SERVICE} ({permitted}) > 0)"


def _busy(by: str = "") -> str:
    """Requests in service divided by threads. Servers without the first figure do not count in the second."""
    return f"sum {by} ({_OBSERVED}) / sum {by} ({_CEILING} and ignoring (method, window) {_OBSERVED})"


LEAST = signal(
    "Least headroom",
    TIMES,
    f"The server with the least headroom, and the limit that it reaches first. {_LEAST}",
    Series(in_words(f"bottomk(1, {_HEADROOM})"), f"{_SERVER}: {{{{limit}}}}", now=True),
)
FIRING = signal(
    "Alerts",
    "none",
    "Alerts of this project's rules that fire now, for any server. Also none if the rules are not loaded.",
    Series('count(ALERTS{alertname=~"Uwsgi.*", alertstate="firing"})', "firing", now=True),
)
THREADS = signal(
    "Threads busy",
    "percentunit",
    """Mean requests in service as a part of the threads, of all chosen servers together. A single full server does not
    show here: see the table.""",
    Series(_busy(), "busy", now=True),
)
QUEUE_WAIT = signal(
    "Queue wait",
    "s",
    """The server where requests wait longest in the listen queue. Empty if no queue can be measured, or no request is
    served.""",
    Series(f"topk(1, {_QUEUE_WAIT})", _SERVER, now=True),
)


SERVICES = signal(
    "Services, least headroom first",
    "none",
    f"""A line for each value of the service label that is chosen above: `server` by default, or any label that
    Prometheus adds, such as cluster or team. Headroom is that of the service's worst server. {_LEAST} {_WAIT} p95:
    95 % of the requests were faster inside uWSGI; {COARSE} Budget burns: the burn rate over the last hour of the
    objectives that are set (--slo); at 1x, the error budget of 30 days lasts 30 days.""",
    Series(_least(BY_SERVICE), "Headroom", now=True),
    Series(f"min {BY_SERVICE} ({_USABLE})", UNTIL_WAIT, now=True),
    Series(_busy(BY_SERVICE), "Threads busy", now=True),
    Series(f"max {BY_SERVICE} ({_COST})", "Unevenness costs", now=True),
    Series(f"max {BY_SERVICE} ({_QUEUE_WAIT})", "Queue wait", now=True),
    Series(_TIME_BY_SERVICE, "Response time", now=True),
    Series(_percentile(0.95), "p95", now=True),
    Series(_burning("1h"), "Budget burns", now=True),
    Series(f"sum {BY_SERVICE} ({_REQUESTS})", "Requests", now=True),
    Series(f"count {BY_SERVICE} ({_UP})", "Servers", now=True),
)
SERVERS = signal(
    "Servers, worst verdict first",
    "none",
    f"What the exporter judges of each server, and the first thing to do. {_LEAST} Users wait: in the listen queue, "
    "and in service. Click on a server to open its dashboard. A server without figures cannot be read.",
    RANKED,
    Series(_least(BY_SERVER), "Headroom", now=True),
    Series(_busy(BY_SERVER), "Threads busy", now=True),
    Series(
        f"max {BY_SERVER} ({_TIME}) + max {BY_SERVER} ({_QUEUE_WAIT}) or max {BY_SERVER} ({_TIME})",
        "Users wait",
        now=True,
    ),
    Series(f"sum {BY_SERVER} ({_REQUESTS})", "Requests", now=True),
)
_LEFT = f"min {BY_SERVER} ({_of('uwsgi_headroom_ratio', WINDOW, at=' @ end()')})"
_IDLE = f"max {BY_SERVER} ({_of('uwsgi_up', at=' @ end()')}) * 0 + Inf"
_DRAWN = f"and bottomk({_LINES}, {_LEFT} or {_IDLE})"
"""Selects the same servers for each graph, so that they have the same colours: Grafana assigns colours by the order of
the series. Servers without a figure have no line."""


def _all_of(by: str, figures: str) -> str:
    return f"({figures} or max {by} ({_UP}) * NaN)"


HEADROOM = signal(
    "Headroom over time",
    TIMES,
    f"The {_LINES} servers with the least headroom at the end of the time range. {_LEAST}",
    Series(f"{_all_of(BY_SERVER, f'min {BY_SERVER} ({_HEADROOM})')}\n{_DRAWN}", _SERVER),
)
UTILIZATION = signal(
    "Threads busy over time",
    "percentunit",
    """Mean requests in service as a part of the threads, of the same servers in the same colours. If a server has CPU
    headroom and at times all threads busy, its requests wait for something other than the CPUs.""",
    Series(f"{_all_of(BY_SERVER, _busy(BY_SERVER))}\n{_DRAWN}", _SERVER),
)
REQUESTS_BY_SERVICE = signal(
    "Requests by service",
    "reqps",
    "Requests completed per second, stacked.",
    Series(_all_of(BY_SERVICE, f"sum {BY_SERVICE} ({_REQUESTS})"), "{{service}}"),
)
RESPONSE_TIME_BY_SERVICE = signal(
    "Response time by service",
    "s",
    "Mean time in service of a request, without the listen queue: total time divided by requests.",
    Series(_all_of(BY_SERVICE, _TIME_BY_SERVICE), "{{service}}"),
)
PERCENTILES_BY_SERVICE = signal(
    "95th percentile by service",
    "s",
    f"""95 % of the requests were faster inside uWSGI, over the window that is chosen above, without the wait in the
    listen queue. Made by PromQL of the histograms of all servers of the service. {COARSE}""",
    Series(_all_of(BY_SERVICE, _percentile(0.95)), "{{service}}"),
)
