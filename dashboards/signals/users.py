"""What the users of one server get: requests, response time, errors, and the wait in the listen queue."""

from __future__ import annotations

from dashboards.selector import ONE, RATE, WINDOW
from dashboards.signal import PER_MINUTE, Series, signal
from dashboards.signals.limits import OBSERVED_SECONDS

_REQUESTS = f"sum({ONE.rate('uwsgi_worker_requests_total')})"
_STATIC = f"sum({ONE.rate('uwsgi_worker_static_requests_total')})"
_QUEUE = f"sum({ONE.rate('uwsgi_socket_queue_seconds_total')}) / {OBSERVED_SECONDS}"
_SERVICE = (
    f"sum({ONE.rate('uwsgi_worker_running_time_seconds_total')}) / (({_REQUESTS} - {_STATIC} or {_REQUESTS}) > 0)"
)

RESPONSE_TIME_NOW = signal(
    "Response time",
    "s",
    "Mean time in service of a request; listen queue and static files are left out. Empty while nothing is served.",
    Series(f"max({ONE.of('uwsgi_response_time_seconds', WINDOW)})", "in service"),
)
QUEUE_WAIT_NOW = signal(
    "Queue wait",
    "s",
    """Mean time that a request waits in the listen queue, on top of the response time. Empty where the queue cannot
    be measured, or nothing is served.""",
    Series(f"max({ONE.of('uwsgi_queue_wait_seconds', WINDOW)})", "in the queue"),
)
REQUESTS = signal(
    "Requests",
    "reqps",
    "Requests completed a second. Those in which a worker was killed are counted nowhere.",
    Series(_REQUESTS, "requests"),
    Series(f"{_STATIC} > 0", "of them static files"),
)
WHERE_TIME_GOES = signal(
    "Time of a request",
    "s",
    """What users wait for: in the listen queue, and then in service. Means; static
    files are left out of the time in service. Empty while nothing is served; no queue where it cannot be measured.""",
    Series(_SERVICE, "in service"),
    Series(f"{_QUEUE} / ({_REQUESTS} > 0)", "in the listen queue"),
)
ERRORS = signal(
    "Errors",
    PER_MINUTE,
    """Exceptions are those that escaped to uWSGI: a framework that turns them into
    answers hides them. A harakiri and a respawn end every request in the worker.""",
    Series(f"60 * sum({ONE.rate('uwsgi_worker_exceptions_total')})", "exceptions"),
    Series(f"60 * sum({ONE.rate('uwsgi_worker_harakiri_total')})", "harakiri"),
    Series(f"60 * sum({ONE.rate('uwsgi_worker_respawns_total')})", "respawns"),
)
_EACH_QUEUE = (
    f"sum by (socket) ({ONE.rate('uwsgi_socket_queue_seconds_total')}) / on () group_left () {OBSERVED_SECONDS}"
)
_UNMEASURED = "Empty where the queue cannot be measured: the exporter's page says why."
QUEUE = signal(
    "Waiting in the listen queue",
    "none",
    f"Connections that wait for a thread, by socket: the mean, from samples. {_UNMEASURED}",
    Series(_EACH_QUEUE, "{{socket}}"),
)
QUEUE_FULL = signal(
    "How full the listen queue is",
    "percentunit",
    f"""The longest of each step, at scrapes, over what fits (uWSGI's `listen`, at most net.core.somaxconn). At 100 %
    clients are refused on a UNIX socket, and left to try again on TCP. {_UNMEASURED}""",
    Series(
        f"max by (socket) (max_over_time({ONE.of('uwsgi_socket_queue_length')}{RATE}))\n"
        f"/ (max by (socket) ({ONE.of('uwsgi_socket_max_queue_length')}) > 0)",
        "{{socket}}",
    ),
)
REFUSED = signal(
    "Connections that found the queue full",
    PER_MINUTE,
    """TCP only, and of the server's whole network namespace: other listeners count, too. UNIX sockets refuse
    the client and count nothing.""",
    Series(f"60 * sum({ONE.rate('uwsgi_listen_overflows_total')})", "overflows"),
    Series(f"60 * sum({ONE.rate('uwsgi_listen_drops_total')})", "drops"),
)
