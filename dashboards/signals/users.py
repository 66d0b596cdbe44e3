"""What the users of one server get: requests, response time, errors, and the wait in the listen queue."""

from __future__ import annotations

from dashboards.signal import ONE, PER_MINUTE, RATE, Series, signal
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
