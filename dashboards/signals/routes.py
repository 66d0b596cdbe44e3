"""Which routes hold the busy threads of one server."""

from __future__ import annotations

from dashboards.selector import ONE, RANGE, RATE
from dashboards.signal import Series, signal
from dashboards.signals.limits import OBSERVED_SECONDS

_DRAWN = 12
_BUSY = "uwsgi_route_busy_thread_seconds_total"
_MOST = f"topk({_DRAWN}, sum by (route) (rate({ONE.of(_BUSY)}{RANGE} @ end())))"

THREADS = signal(
    "Busy threads by route",
    "none",
    f"""Requests in service by their route, from samples: the {_DRAWN} routes that held most threads in the shown time.
    The thickest band is where shorter requests help most. It says nothing about the number of requests: a route with
    few long ones is as thick as one with many short ones. Empty unless the exporter runs with --routes.""",
    Series(
        f"sum by (route) (rate({ONE.of(_BUSY)}{RATE})) / on () group_left () {OBSERVED_SECONDS}\n"
        f"and on (route) {_MOST}",
        "{{route}}",
    ),
)
