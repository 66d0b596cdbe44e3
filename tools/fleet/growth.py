"""Says how each series of a stand-in server grows or varies: made from the growth of the real series.

Counters of requests follow the server's load; counters of samples and of the machine's time follow the clock. All
workers of a server have the mean growth of the captured workers, so that the shares of requests are known, except for
the first worker of an uneven server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.fleet import exposition, plan
from tools.fleet.exposition import Series

FOLLOWS_CLOCK = (
    "uwsgi_exporter_",
    "uwsgi_wait_observed_seconds_total",
    "uwsgi_threads_busy_ratio",
    "uwsgi_cpu_available_idle_seconds_total",
    "uwsgi_cpu_used_by_others_seconds_total",
    "uwsgi_listen_",
    "uwsgi_worker_respawns_total",
    "uwsgi_events_total",
    "process_",
)
"""Beginnings of the names of counters that grow with time and not with requests."""
PROPORTIONAL = ("uwsgi_throughput_requests_per_second", "uwsgi_concurrency", "uwsgi_worker_interpreter_load")
INVERSE = ("uwsgi_headroom_ratio",)
VARIATION = 0.2
"""Of a gauge that differs between the two captured expositions, relative to its value."""
DOWN = ("uwsgi_events_total", "uwsgi_exporter_read_errors_total")
"""What the exporter still says of a server that is down, beside `uwsgi_up`."""


@dataclass(frozen=True)
class Line:
    """A series of a stand-in server: base + load_rate x time of its load + clock_rate x time + swing x noise."""

    name: str
    labels: Mapping[str, str]
    base: float
    load_rate: float
    clock_rate: float
    swing: float
    integral: bool


def lines(captured: Sequence[Series], server: plan.Server) -> list[Line]:
    """Returns the series of a stand-in server."""
    seconds = exposition.observed_seconds(list(captured))
    means = _mean_growth(captured)
    of_server = [series for series in captured if "server" in series.labels]
    if server.trouble == "down":
        up = [_constant(series, server, 0.0) for series in of_server if series.name == "uwsgi_up"]
        return up + [_constant(series, server, series.second) for series in of_server if series.name in DOWN]
    return [_line(series, server, seconds, means) for series in of_server]


def of_exporter(captured: Sequence[Series]) -> list[Line]:
    """Returns the series of a stand-in exporter itself."""
    seconds = exposition.observed_seconds(list(captured))
    means = _mean_growth(captured)
    server = plan.Server(0, 0, "", 1.0, "")
    return [_line(series, server, seconds, means) for series in captured if "server" not in series.labels]


def _line(series: Series, server: plan.Server, seconds: float, means: Mapping[object, float]) -> Line:
    if not series.grows:
        return _gauge(series, server)
    rate = means[_group(series)] / seconds
    if (
        series.name == "uwsgi_socket_queue_seconds_total"
        and server.trouble == "queue"
        and ":" in series.labels["socket"]
    ):
        return Line(series.name, _labels(series, server), series.second, 0.0, plan.QUEUED, 0.0, False)
    if series.name.startswith(FOLLOWS_CLOCK):
        return Line(series.name, _labels(series, server), series.second, 0.0, rate, 0.0, series.integral)
    load = server.load * _worker_factor(series, server)
    return Line(series.name, _labels(series, server), series.second, rate * load, 0.0, 0.0, series.integral)


def _gauge(series: Series, server: plan.Server) -> Line:
    value = series.second
    if series.name in PROPORTIONAL:
        value *= server.load
    elif series.name in INVERSE:
        value /= server.load
    elif series.first != series.second:
        swing = VARIATION * abs(value)
        return Line(series.name, _labels(series, server), value, 0.0, 0.0, swing, series.integral)
    return _constant(series, server, value)


def _constant(series: Series, server: plan.Server, value: float) -> Line:
    return Line(series.name, _labels(series, server), value, 0.0, 0.0, 0.0, value.is_integer())


def _labels(series: Series, server: plan.Server) -> dict[str, str]:
    return {**series.labels, "server": server.name} if "server" in series.labels else dict(series.labels)


def _worker_factor(series: Series, server: plan.Server) -> float:
    """Returns the load of the series' worker relative to the mean of the captured eight."""
    if server.trouble != "uneven" or "worker_id" not in series.labels:
        return 1.0
    return plan.HOT_WORKER if series.labels["worker_id"] == "1" else (8 - plan.HOT_WORKER) / 7


def _group(series: Series) -> object:
    return series.name, frozenset((key, value) for key, value in series.labels.items() if key != "worker_id")


def _mean_growth(captured: Sequence[Series]) -> dict[object, float]:
    """Returns the growth of counters by name and labels, as the mean over workers."""
    grown: dict[object, list[float]] = {}
    for series in captured:
        if series.grows:
            grown.setdefault(_group(series), []).append(max(0.0, series.second - series.first))
    return {group: sum(values) / len(values) for group, values in grown.items()}
