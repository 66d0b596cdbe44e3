"""What the users of one server get: requests, response time, errors, the wait in the queue, and its objective."""

from __future__ import annotations

from dashboards.signal import BURNS_AN_HOUR, BURNS_HOURS, ONE, PER_MINUTE, RATE, TIMES, WINDOW, Series, Signal, signal
from dashboards.signals.limits import OBSERVED_SECONDS

_REQUESTS = f"sum({ONE.rate('uwsgi_worker_requests_total')})"
_STATIC = f"sum({ONE.rate('uwsgi_worker_static_requests_total')})"
_QUEUE = f"sum({ONE.rate('uwsgi_socket_queue_seconds_total')}) / {OBSERVED_SECONDS}"
_SERVICE = (
    f"sum({ONE.rate('uwsgi_worker_running_time_seconds_total')}) / (({_REQUESTS} - {_STATIC} or {_REQUESTS}) > 0)"
)
QUEUE_WAIT = f"{_QUEUE} / ({_REQUESTS} > 0)"
"""Seconds of a mean request."""

REQUESTS = signal(
    "Requests",
    "reqps",
    "Requests completed per second. Requests in a worker that was killed are not included.",
    Series(_REQUESTS, "requests"),
    Series(f"{_STATIC} > 0", "of them static files"),
)
WHERE_TIME_GOES = signal(
    "Time of a request",
    "s",
    """Mean time that users wait, in the listen queue and then in service (without static files). Empty if no request is
    served; without the queue if it cannot be measured.""",
    Series(_SERVICE, "in service"),
    Series(QUEUE_WAIT, "in the listen queue"),
)
ERRORS = signal(
    "Errors",
    PER_MINUTE,
    """Exceptions that the application does not catch; those that a framework turns into a response are not counted. A
    harakiri or a respawn ends every request in the worker.""",
    Series(f"60 * sum({ONE.rate('uwsgi_worker_exceptions_total')})", "exceptions"),
    Series(f"60 * sum({ONE.rate('uwsgi_worker_harakiri_total')})", "harakiri"),
    Series(f"60 * sum({ONE.rate('uwsgi_worker_respawns_total')})", "respawns"),
)
_EACH_QUEUE = (
    f"sum by (socket) ({ONE.rate('uwsgi_socket_queue_seconds_total')}) / on () group_left () {OBSERVED_SECONDS}"
)
_UNMEASURED = "Empty if the queue cannot be measured: the exporter's page shows the reason."
QUEUE = signal(
    "Waiting in the listen queue",
    "none",
    f"Mean number of connections that wait for a thread, by socket, from samples. {_UNMEASURED}",
    Series(_EACH_QUEUE, "{{socket}}"),
)
QUEUE_FULL = signal(
    "How full the listen queue is",
    "percentunit",
    f"""The longest queue in each step, at scrapes, as a part of its limit (uWSGI's `listen`, at most
    net.core.somaxconn). At 100 %, clients of a UNIX socket are refused, and TCP clients must retry. {_UNMEASURED}""",
    Series(
        f"max by (socket) (max_over_time({ONE.of('uwsgi_socket_queue_length')}{RATE}))\n"
        f"/ (max by (socket) ({ONE.of('uwsgi_socket_max_queue_length')}) > 0)",
        "{{socket}}",
    ),
)
REFUSED = signal(
    "Connections that found the queue full",
    PER_MINUTE,
    """TCP only, for the server's whole network namespace: other listeners count, too. UNIX sockets refuse clients
    without counting.""",
    Series(f"60 * sum({ONE.rate('uwsgi_listen_overflows_total')})", "overflows"),
    Series(f"60 * sum({ONE.rate('uwsgi_listen_drops_total')})", "drops"),
)


_INSIDE = """Inside uWSGI, without the wait in the listen queue, without static files."""
_NO_OBJECTIVE = "Empty if the server has no objective: it is set with the exporter's option --slo, such as 1s:99%."
_THRESHOLD = Series(f"max({ONE.of('uwsgi_slo_threshold_seconds')})", "threshold")
_OBJECTIVE = f"max({ONE.of('uwsgi_slo_objective_ratio')})"


def _bad(window: str) -> str:
    bad, every = (ONE.over(f"uwsgi_slo_{what}_total", window) for what in ("bad_requests", "requests"))
    return f"sum({bad}) / (sum({every}) > 0)"


PERCENTILES = signal(
    "Response time: percentiles",
    "s",
    f"""{_INSIDE} Estimated from samples, over the window that is chosen above; the mean is exact. A percentile is
    missing if it is shorter than 0.8 of the time between two samples (160 ms by default), or if there are too few
    requests (p99 needs 100). These are the exporter's own percentiles: what PromQL makes of the histogram is a little
    coarser.""",
    Series(f"max by (percentile) ({ONE.of('uwsgi_response_time_percentile_seconds', WINDOW)})", "p{{percentile}}"),
    Series(f"max({ONE.of('uwsgi_mean_response_time_seconds', WINDOW)})", "mean"),
    _THRESHOLD,
)
HISTOGRAM = signal(
    "Response time: how many requests took how long",
    "s",
    f"""Requests completed in each step, by their response time. {_INSIDE} How many there are is exact; how they are
    spread over the bands is estimated from samples, which show little about times shorter than the one between two
    samples (200 ms by default). A second band further up is often another kind of request.""",
    Series(f"sum by (le) (increase({ONE.of('uwsgi_response_time_seconds_bucket')}{RATE}))", "{{le}}"),
)
GOOD = signal(
    "Good requests, against the objective",
    "percentunit",
    f"""Requests that were served within the threshold and not lost, over 5 minutes, against the share that the
    objective asks for. How many were slow is estimated from samples. {_NO_OBJECTIVE}""",
    Series(f"1 - {_bad('5m')}", "good"),
    Series(_OBJECTIVE, "objective"),
)
NOW = signal(
    "Objective",
    TIMES,
    f"""The share of good requests of the last 5 minutes, the share that the objective asks for, and how fast the error
    budget burns: at 1x, the budget of 30 days lasts 30 days, and the objective is just met. {_NO_OBJECTIVE}""",
    Series(f"1 - {_bad('5m')} and {_OBJECTIVE}", "good", now=True),
    Series(_OBJECTIVE, "asked for", now=True),
    Series(f"{_bad('5m')} / (1 - {_OBJECTIVE})", "budget burns", now=True),
)
_LOOKS = 12
"""In an hour."""
_HAD = f"clamp_max((count_over_time({_OBJECTIVE}[30d:{60 // _LOOKS}m]) or vector(0)) / (30 * 24 * {_LOOKS}), 1)"
"""The part of the last 30 days in which the server had an objective, by a look every few minutes."""
_LEFT = f"(1 - {_bad('30d')} / (1 - {_OBJECTIVE}) * {_HAD})"
LASTS = "lasts, as now"
BUDGET = signal(
    "Budget left of 30 days",
    "percentunit",
    f"""What is left of the bad requests that the objective permits in 30 days, and how long that lasts at the burn rate
    of the last hour. Below 0 %, the objective is missed. It counts as met on days before the server had it, or of
    which Prometheus has no data: a new server has a whole budget, and a high burn rate uses it up soon.
    {_NO_OBJECTIVE}""",
    Series(_LEFT, "left", now=True),
    Series(f"clamp_min({_LEFT}, 0) * 30 * 86400 / ({_bad('1h')} / (1 - {_OBJECTIVE}) > 0.01)", LASTS, now=True),
)
_SOME = ONE.of("uwsgi_queue_wait_percentile_seconds", 'percentile=~"50|95|99"')
_OLDEST = ONE.of("uwsgi_listen_queue_oldest_wait_seconds")
WAIT = signal(
    "Wait before: in the listen queue",
    "s",
    """How long requests wait before uWSGI takes them: the mean, percentiles over the exporter's longest window, and the
    oldest request in the queue. Response times leave it out; the objective counts it. Empty if the queue cannot be
    measured, or no request is served; without percentiles if none was seen waiting.""",
    Series(QUEUE_WAIT, "mean"),
    Series(f"max by (percentile) ({_SOME})", "p{{percentile}}"),
    Series(f"max({_OLDEST})", "oldest"),
    _THRESHOLD,
)


def burn() -> Signal:
    """The burn rate, and what it takes to be a page."""
    return signal(
        "Burn rate of the error budget",
        TIMES,
        f"""The share of bad requests divided by the share that the objective permits, over several windows. At 1x, the
        budget of 30 days lasts 30 days. The page needs {BURNS_AN_HOUR:g}x over 1 h and 5 min, or
        {BURNS_HOURS:g}x over 6 h and 30 min; the ticket looks at days. {_NO_OBJECTIVE}""",
        *(Series(f"{_bad(window)} / (1 - {_OBJECTIVE})", window) for window in ("5m", "1h", "6h")),
    )
