"""Which server to look at first: all of them, and the services they make up.

From the exporter's own windowed figures: it works without recording rules.
"""

from __future__ import annotations

from dashboards.selector import BY_SERVER, BY_SERVICE, FLEET, WINDOW, in_words, with_service
from dashboards.signal import TIMES, Series, signal

_LEAST = """Headroom is the factor by which load can grow before a limit is reached: at 1x it is. The least of the four
limits counts. One that is used to less than a hundredth has no headroom that means anything, so an idle server is
without."""
_LINES = 12
"""Servers in a graph: more drown each other."""


def _of(metric: str, *more: str, at: str = "") -> str:
    return with_service(FLEET.of(metric, *more) + at)


def _least(by: str) -> str:
    """The limit with the least headroom of each group. Labels are kept by name, so that columns stay the same."""
    least = in_words(f"bottomk {by} (1, {_HEADROOM})")
    return f"sort(sum {by.replace(')', ', limit)')} ({least}))"


_HEADROOM = _of("uwsgi_headroom_ratio", WINDOW)
_REQUESTS = _of("uwsgi_throughput_requests_per_second", WINDOW)
_OBSERVED = _of("uwsgi_concurrency", WINDOW, 'method="observed"')
_LITTLES_LAW = _of("uwsgi_concurrency", WINDOW, 'method="littles_law"')
_CEILING = _of("uwsgi_threads_ceiling")
_COST = _of("uwsgi_unevenness_cost_ratio", WINDOW)
_QUEUE_WAIT = _of("uwsgi_queue_wait_seconds", WINDOW)
_UP = _of("uwsgi_up")
_SERVER = "{{server}} on {{instance}}"

_TIME = _of("uwsgi_response_time_seconds", WINDOW)
_TIME_BY_SERVICE = (
    f"sum {BY_SERVICE} ({_LITTLES_LAW} and ignoring (method) {_TIME})\n"
    f"/ sum {BY_SERVICE} ({_LITTLES_LAW} / ignoring (method) ({_TIME} > 0))"
)
"""All the time over all the requests that took any: by Little's law there are L / W of them a second."""


def _busy(by: str = "") -> str:
    """Requests in service over the threads there are. Servers that do not tell of the one are not in the other."""
    return f"sum {by} ({_OBSERVED}) / sum {by} ({_CEILING} and ignoring (method, window) {_OBSERVED})"


LEAST = signal(
    "Least headroom",
    TIMES,
    f"The server that can take least more, and which limit comes first there. {_LEAST}",
    Series(in_words(f"bottomk(1, {_HEADROOM})"), f"{_SERVER}: {{{{limit}}}}", now=True),
)
UNREADABLE = signal(
    "Servers down",
    "none",
    """Servers whose stats server does not answer, so that nothing is known of them; the exporter's page says why.
    Empty where no exporter is scraped.""",
    Series(f"count({_UP}) - sum({_UP})", "servers", now=True),
)
FIRING = signal(
    "Alerts",
    "none",
    "Alerts of this project's rules that fire now, of any server. None also where the rules are not loaded.",
    Series('count(ALERTS{alertname=~"Uwsgi.*", alertstate="firing"})', "firing", now=True),
)
THREADS = signal(
    "Threads busy",
    "percentunit",
    """Mean requests in service over threads, of all chosen servers together. One full server hides in it: see the
    table.""",
    Series(_busy(), "busy"),
)
COST = signal(
    "Unevenness cost",
    "percentunit",
    """The costliest: where balancing the workers would save most of the response time, and how much. Empty while
    there are too few requests to tell.""",
    Series(f"topk(1, {_COST})", _SERVER, now=True),
)
QUEUE_WAIT = signal(
    "Queue wait",
    "s",
    """The longest: where requests wait longest in the listen queue. Empty where no queue can be
    measured, or nothing is served.""",
    Series(f"topk(1, {_QUEUE_WAIT})", _SERVER, now=True),
)


SERVICES = signal(
    "Services, least headroom first",
    "none",
    f"""A line for each value of the label that is chosen above as the service: `server` as shipped, but it may be
    cluster, team or whatever Prometheus adds. Headroom is that of the service's worst server. {_LEAST}""",
    Series(_least(BY_SERVICE), "Headroom", now=True),
    Series(_busy(BY_SERVICE), "Threads busy", now=True),
    Series(f"max {BY_SERVICE} ({_COST})", "Unevenness costs", now=True),
    Series(f"max {BY_SERVICE} ({_QUEUE_WAIT})", "Queue wait", now=True),
    Series(_TIME_BY_SERVICE, "Response time", now=True),
    Series(f"sum {BY_SERVICE} ({_REQUESTS})", "Requests", now=True),
    Series(f"count {BY_SERVICE} ({_UP})", "Servers", now=True),
)
SERVERS = signal(
    "Servers, least headroom first",
    "none",
    f"{_LEAST} A click on a server opens its page. A line without figures is of a server that cannot be read.",
    Series(_least(BY_SERVER), "Headroom", now=True),
    Series(_busy(BY_SERVER), "Threads busy", now=True),
    Series(f"max {BY_SERVER} ({_of('uwsgi_hot_worker_ratio', WINDOW)})", "Hot worker", now=True),
    Series(f"max {BY_SERVER} ({_COST})", "Unevenness costs", now=True),
    Series(f"max {BY_SERVER} ({_QUEUE_WAIT})", "Queue wait", now=True),
    Series(f"max {BY_SERVER} ({_TIME})", "Response time", now=True),
    Series(f"sum {BY_SERVER} ({_REQUESTS})", "Requests", now=True),
    Series(f"min {BY_SERVER} ({_UP})", "Read", now=True),
)
_LEFT = f"min {BY_SERVER} ({_of('uwsgi_headroom_ratio', WINDOW, at=' @ end()')})"
_IDLE = f"max {BY_SERVER} ({_of('uwsgi_up', at=' @ end()')}) * 0 + Inf"
_DRAWN = f"and bottomk({_LINES}, {_LEFT} or {_IDLE})"
"""The same servers in each graph, so that they have the same colours: Grafana gives these by the order of the series.
Those that have no figure are without a line."""


def _all_of(by: str, figures: str) -> str:
    return f"({figures} or max {by} ({_UP}) * NaN)"


HEADROOM = signal(
    "Headroom over time",
    TIMES,
    f"The {_LINES} servers with the least headroom at the end of the shown time. {_LEAST}",
    Series(f"{_all_of(BY_SERVER, f'min {BY_SERVER} ({_HEADROOM})')}\n{_DRAWN}", _SERVER),
)
UTILIZATION = signal(
    "Threads busy over time",
    "percentunit",
    """Mean requests in service over threads, of the same servers in the same colours. One with headroom left and all
    threads busy at times waits for something else than its CPUs.""",
    Series(f"{_all_of(BY_SERVER, _busy(BY_SERVER))}\n{_DRAWN}", _SERVER),
)
REQUESTS_BY_SERVICE = signal(
    "Requests by service",
    "reqps",
    "Requests completed a second, stacked.",
    Series(_all_of(BY_SERVICE, f"sum {BY_SERVICE} ({_REQUESTS})"), "{{service}}"),
)
RESPONSE_TIME_BY_SERVICE = signal(
    "Response time by service",
    "s",
    "Mean time in service of a request, listen queue excluded: all the time over all the requests.",
    Series(_all_of(BY_SERVICE, _TIME_BY_SERVICE), "{{service}}"),
)
