"""What the threads of workers, servers and services spend their time on, as threads and per request; and by route.

By Little's law, L threads in a state and λ requests per second are L/λ seconds of a mean request in that state.
"""

from __future__ import annotations

from collections.abc import Sequence

from alerts.levels import by_service, of_server
from alerts.rule import Recording
from alerts.thresholds import Thresholds

_PARTS = {"wait": "state", "backend_wait": "backend"}
"""By the start of a metric's name, the label of its parts. Waits for named backends are a part of the state
`backend`."""


def rules(t: Thresholds) -> Sequence[Recording]:
    """The rules of workers, servers and services. They use the requests that the rules of these levels record."""
    w = t.window
    lock = f"rate(uwsgi_worker_interpreter_lock_wait_thread_seconds_total[{w}])"
    return [
        *_routes(t),
        Recording(
            f"worker:uwsgi_interpreter_lock_wait_threads:ratio_rate{w}", f"{lock} {of_server('/')} {_observed(w)}"
        ),
        *(rule for metric, label in _PARTS.items() for rule in _of_servers(metric, label, t)),
        *(rule for metric, label in _PARTS.items() for rule in _of_services(metric, label, t)),
    ]


def _routes(t: Thresholds) -> Sequence[Recording]:
    """Busy threads by route: opt-in, at most 51 series of a server."""
    w = t.window
    observed = f"(rate(uwsgi_exporter_observed_seconds_total[{w}]) > 0)"
    server, service = (f"{level}:uwsgi_route_threads:ratio_rate{w}" for level in ("server", "service"))
    return [
        Recording(server, f"rate(uwsgi_route_busy_thread_seconds_total[{w}]) {of_server('/', 'route')} {observed}"),
        Recording(service, by_service("sum", server, t)),
    ]


def _of_servers(metric: str, label: str, t: Thresholds) -> Sequence[Recording]:
    w = t.window
    return [
        Recording(
            f"server:uwsgi_{metric}_threads:ratio_rate{w}",
            f"rate(uwsgi_{metric}_thread_seconds_total[{w}]) {of_server('/', label)} {_observed(w)}",
        ),
        Recording(
            f"server:uwsgi_{metric}_seconds_per_request:ratio_rate{w}",
            f"({_whole(metric, label, w)}) {of_server('/', label)} (server:uwsgi_requests:rate{w} > 0)",
        ),
    ]


def _of_services(metric: str, label: str, t: Thresholds) -> Sequence[Recording]:
    w = t.window
    threads = _whole(metric, label, w)
    # For each part, the requests of the servers that have a figure of it.
    requests = f"0 * ({threads}) {of_server('+', label)} server:uwsgi_requests:rate{w}"
    return [
        Recording(
            f"service:uwsgi_{metric}_threads:ratio_rate{w}",
            by_service("sum", f"server:uwsgi_{metric}_threads:ratio_rate{w}", t),
        ),
        Recording(
            f"service:uwsgi_{metric}_seconds_per_request:ratio_rate{w}",
            f"""
            {by_service("sum", threads, t)}
              / ({by_service("sum", requests, t)} > 0)
            """,
        ),
    ]


def _observed(w: str) -> str:
    """The part of the time in which it is known what threads do, so that a gap does not count as idle time."""
    return f"(rate(uwsgi_wait_observed_seconds_total[{w}]) > 0)"


def _whole(metric: str, label: str, w: str) -> str:
    """The threads of servers that have been known for the whole window: for younger series, `rate` divides the requests
    by the whole window, too."""
    return (
        f"server:uwsgi_{metric}_threads:ratio_rate{w} and ignoring ({label}) "
        f"uwsgi_wait_observed_seconds_total offset {w}"
    )
