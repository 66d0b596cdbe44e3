"""What the requests of one server spend their time on, and which routes hold its busy threads."""

from __future__ import annotations

from dashboards.signal import ONE, RANGE, RATE, Series, signal
from dashboards.signals.balance import by_worker
from dashboards.signals.limits import OBSERVED_SECONDS

ORDER = (
    "cpu|cpu_wait|interpreter_lock",
    "backend",
    "waits for .*",
    "client|dns",
    "disk|lock|sleep",
    "child|pipe",
    "other|unknown",
)
"""Parts of a stack from the bottom, as patterns of states and named backends; within a part by the alphabet."""

LEAST_SHOWN = 0.005
"""A state with a smaller part of the load is left out, so that the legend has what matters."""

_RIGHT = """Empty unless the exporter may see what uWSGI's threads wait for: give it CAP_SYS_PTRACE and
CAP_DAC_READ_SEARCH, as docs/waits.md says."""

_STATES = """All of them are one band, "in service", unless the exporter may see what uWSGI's threads wait for: give it
CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, as docs/waits.md says."""


def in_order(series: str) -> str:
    """The series with a label `place`. Grafana stacks them in the order in which Prometheus returns them, by labels."""
    for place, states in enumerate(ORDER, start=1):
        series = f'label_replace({series}, "place", "{place}", "state", "{states}")'
    return series


def _waiting(over: str) -> str:
    """Thread seconds per second by state, `over` a range; named backends are apart from the state `backend`."""
    states = f"sum by (state) ({_rate('uwsgi_wait_thread_seconds_total', over)})"
    named = _rate("uwsgi_backend_wait_thread_seconds_total", over)
    return f"""
(
  clamp_min({states} - on (state) label_replace(sum({named}), "state", "backend", "", ""), 0)
  or {states}
  or sum by (state) (label_replace({named}, "state", "waits for $1", "backend", "(.*)"))
)
""".strip()


def _rate(metric: str, over: str) -> str:
    return f"rate({ONE.of(metric)}{over})"


_WHOLE = f"{RANGE} @ end()"
_SEEN = (
    f"and on (state) ({_waiting(_WHOLE)}\n"
    f"> on () group_left () {LEAST_SHOWN} * sum({_rate('uwsgi_wait_thread_seconds_total', _WHOLE)}))"
)
_OBSERVED = f"(sum({_rate('uwsgi_wait_observed_seconds_total', RATE)}) > 0)"
_BY_STATE = f"{_waiting(RATE)} / on () group_left () {_OBSERVED}\n{_SEEN}"
_REQUESTS = f"(sum({ONE.rate('uwsgi_worker_requests_total')}) > 0)"

_BUSY = f"sum({ONE.rate('uwsgi_worker_busy_thread_seconds_total')}) / {OBSERVED_SECONDS}"
IN_SERVICE, QUEUED = "in service", "waits in the listen queue"
"""Names of the series that are no states: the requests in service where their states are not known, and those that no
thread has taken yet."""

LOAD = signal(
    "Load: requests in the system, by what they do",
    "none",
    f"""Requests in service by what their thread does, from samples, and on top those that wait in the listen queue. The
    thickest band is what to shorten first. On CPU: it runs. Waits for a CPU: other threads or programs have all of
    them. Waits for the interpreter lock: another thread of its worker runs Python. What is left up to the lines of
    threads is room. Backends have names if the exporter's option --backends gives them. {_STATES}""",
    Series(in_order(_BY_STATE), "{{state}}"),
    Series(f"{_BUSY} unless on () sum({ONE.rate('uwsgi_wait_observed_seconds_total')}) > 0", IN_SERVICE),
    Series(f"sum({ONE.rate('uwsgi_socket_queue_seconds_total')}) / {OBSERVED_SECONDS}", QUEUED),
    Series(f"sum({ONE.of('uwsgi_threads_available')})", "available"),
    Series(f"sum({ONE.of('uwsgi_threads_configured')})", "configured"),
)
PER_REQUEST = signal(
    "Time per request by state",
    "s",
    f"""Where the time of a mean request goes: the threads in each state, divided by requests per second (Little's law).
    The height is the response time, if no requests pile up. Empty if no request is served. {_RIGHT}""",
    Series(in_order(f"({_BY_STATE})\n/ on () group_left () {_REQUESTS}"), "{{state}}"),
)
INTERPRETER_LOCK = signal(
    "Interpreter lock: waiting threads by worker",
    "none",
    f"""Mean threads of a worker that could run Python if another thread of the same worker did not. More than 1 beside
    an interpreter load near 100 %: more processes with fewer threads each are faster. {_RIGHT}""",
    by_worker(
        f"sum by (worker_id) ({ONE.rate('uwsgi_worker_interpreter_lock_wait_thread_seconds_total')})\n"
        f"/ on () group_left () {_OBSERVED}"
    ),
)

_DRAWN = 12
_BY_ROUTE = "uwsgi_route_busy_thread_seconds_total"
_MOST = f"topk({_DRAWN}, sum by (route) (rate({ONE.of(_BY_ROUTE)}{RANGE} @ end())))"

ROUTES = signal(
    "Busy threads by route",
    "none",
    f"""Requests in service by their route, from samples: the {_DRAWN} routes that held most threads in the shown time.
    The thickest band is where shorter requests help most. It says nothing about the number of requests: a route with
    few long ones is as thick as one with many short ones. Empty unless the exporter runs with --routes.""",
    Series(
        f"sum by (route) (rate({ONE.of(_BY_ROUTE)}{RATE})) / on () group_left () {OBSERVED_SECONDS}\n"
        f"and on (route) {_MOST}",
        "{{route}}",
    ),
)
