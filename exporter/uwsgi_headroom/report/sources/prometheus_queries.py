"""The queries that fill a review's columns, from the counters of docs/metrics.md.

Growth is taken from the last scrape before a quarter of an hour to the last one in it: `increase` over the quarter and
one interval between scrapes. It extrapolates every counter of a server by the same factor, because all are of the same
scrapes; so a ratio to the growth of the exporter's own clock has no error of extrapolation, and nothing that happens
between two quarters is lost.

The answers are kept by query, server and part: the label by which the series of one server differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from uwsgi_headroom.report.columns import STEP, Column, last_known
from uwsgi_headroom.report.sources.prometheus_api import Series
from uwsgi_headroom.report.sources.server_series import OBSERVED, ServerSeries

_SERVER_COUNTERS = {
    "observed": OBSERVED,
    "gap": "uwsgi_exporter_sample_gap_seconds_total",
    "full": "uwsgi_full_occupancy_seconds_total",
    "reloads": "uwsgi_server_reloads_total",
    "overflows": "uwsgi_listen_overflows_total",
    "cpu_own": "uwsgi_cpu_used_by_workers_seconds_total",
    "cpu_idle": "uwsgi_cpu_available_idle_seconds_total",
    "cpu_others": "uwsgi_cpu_used_by_others_seconds_total",
    "judged": "uwsgi_slo_requests_total",
    "wait_observed": "uwsgi_wait_observed_seconds_total",
}

_WORKER_COUNTERS = {
    "worker_requests": "uwsgi_worker_requests_total",
    "worker_static": "uwsgi_worker_static_requests_total",
    "worker_running": "uwsgi_worker_running_time_seconds_total",
    "worker_busy": "uwsgi_worker_busy_thread_seconds_total",
    "worker_lock": "uwsgi_worker_interpreter_lock_wait_thread_seconds_total",
}

_SUMS = {
    "lost": ("worker_id", "uwsgi_worker_lost_requests_total"),
    "exceptions": ("worker_id", "uwsgi_worker_exceptions_total"),
    "harakiris": ("worker_id", "uwsgi_worker_harakiri_total"),
    "respawns": ("worker_id", "uwsgi_worker_respawns_total"),
    "queue": ("socket", "uwsgi_socket_queue_seconds_total"),
    "slow": ("reason", "uwsgi_slo_bad_requests_total"),
}

_PARTS = {
    "occupancy": ("le", "uwsgi_threads_busy_ratio_bucket"),
    "by_time": ("le", "uwsgi_response_time_seconds_bucket"),
    "waits": ("state", "uwsgi_wait_thread_seconds_total"),
    "backends": ("backend", "uwsgi_backend_wait_thread_seconds_total"),
    "routes": ("route", "uwsgi_route_busy_thread_seconds_total"),
    "events": ("kind", "uwsgi_events_total"),
}

_LEVELS = {
    "configured": "uwsgi_threads_configured",
    "cpus": "uwsgi_cpus_usable",
    "memory_available": "uwsgi_memory_available_bytes",
    "thunder_lock": "uwsgi_thunder_lock",
    "own_sockets": "uwsgi_workers_with_own_sockets",
    "settings_reviewed": "uwsgi_settings_reviewed",
    "threshold": "uwsgi_slo_threshold_seconds",
    "objective": "uwsgi_slo_objective_ratio",
}

_PERCENTILE, _THROUGHPUT = "uwsgi_response_time_percentile_seconds", "uwsgi_throughput_requests_per_second"


@dataclass(frozen=True, slots=True)
class Question:
    """A query. name: of what it fills; parts: the label by which its series of one server differ, or none; template:
    the expression, with `%s` for the label matchers; step: seconds between two values."""

    name: str
    part: str
    template: str
    step: float = STEP

    def expression(self, matchers: str) -> str:
        """The expression for the servers that the matchers select."""
        return self.template.replace("%s", matchers)


def list_questions(interval: float, window: str | None) -> Sequence[Question]:
    """All queries of servers that are scraped every `interval` seconds. window: the label of the windows over which the
    exporter computes percentiles, such as 5m; None if it is of no use."""
    span = growth_seconds(interval)

    def growth(metric: str) -> str:
        return f"increase({metric}{{%s}}[{span:.0f}s])"

    return [
        *(Question(name, "", growth(metric)) for name, metric in _SERVER_COUNTERS.items()),
        *(Question(name, "worker_id", growth(metric)) for name, metric in _WORKER_COUNTERS.items()),
        Question("worker_cpu", "worker_id", f"sum without (mode) ({growth('uwsgi_worker_cpu_seconds_total')})"),
        Question("worker_accepting", "worker_id", f"avg_over_time(uwsgi_worker_accepting{{%s}}[{STEP:.0f}s])"),
        *(Question(name, "", f"sum without ({part}) ({growth(metric)})") for name, (part, metric) in _SUMS.items()),
        Question("queue_full", "", f"max without (socket) ({growth('uwsgi_socket_queue_full_seconds_total')})"),
        *(Question(name, part, growth(metric)) for name, (part, metric) in _PARTS.items()),
        Question("available", "", f"avg_over_time(uwsgi_threads_available{{%s}}[{STEP:.0f}s])"),
        Question("memory_per_worker", "", "max without (worker_id) (uwsgi_worker_unique_memory_bytes{%s})"),
        Question("resident", "", "max without (worker_id) (uwsgi_worker_resident_memory_bytes{%s})"),
        *(Question(name, "", f"{metric}{{%s}}") for name, metric in _LEVELS.items()),
        Question("settings", "rule", "uwsgi_settings_advice{%s}"),
        *(_of_window(window) if window else ()),
    ]


def _of_window(window: str) -> Sequence[Question]:
    """Percentiles over a window, and the requests in it, from window to window. The window must divide a quarter."""
    step = window_seconds(window)
    return [
        Question("percentiles", "percentile", f'sum without (window) ({_PERCENTILE}{{%s,window="{window}"}})', step),
        Question("throughput", "", f'sum without (window) ({_THROUGHPUT}{{%s,window="{window}"}})', step),
    ]


def growth_seconds(interval: float) -> float:
    """The seconds of which growth is asked for: a quarter of an hour, and one interval between scrapes."""
    return STEP + math.ceil(interval)


WINDOWS = "count by (window) (uwsgi_window_seconds)"
"""Which windows there are. Percentiles themselves are absent while there are few requests, as at night."""


def choose_window(windows: Sequence[str]) -> str | None:
    """The longest of these windows (`5m`) that divides a quarter of an hour; None if there is none."""
    useful = [
        window for window in windows if 60 <= window_seconds(window) <= STEP and STEP % window_seconds(window) == 0
    ]
    return max(useful, key=window_seconds, default=None)


def window_seconds(window: str) -> float:
    """The seconds of a window's label, such as `5m`; 0 if it is not understood."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = window[:-1], window[-1:]
    return float(number) * units[unit] if unit in units and number.isascii() and number.isdigit() else 0.0


@dataclass
class Answers:
    """Values for `quarters` quarters of an hour. values: by server and query, by the part's label ("" without parts);
    a query with a shorter step has several values per quarter."""

    quarters: int
    values: dict[tuple[str, str], dict[str, Column]] = field(default_factory=dict)

    def add(self, question: Question, servers: Iterable[ServerSeries], series: Iterable[Series], first: int) -> None:
        """Add the answer to a question about these servers that begins with the quarter `first`. Series of other
        servers are left out."""
        names = {frozenset(server.labels.items()): server.name for server in servers}
        each = round(STEP / question.step)
        for one in series:
            own = {label: text for label, text in one.labels.items() if label not in ("__name__", question.part)}
            name = names.get(frozenset(own.items()))
            if name is None:
                continue
            parts = self.values.setdefault((name, question.name), {})
            part = one.labels.get(question.part, "") if question.part else ""
            column = parts.setdefault(part, np.full(self.quarters * each, np.nan))
            column[first * each : first * each + len(one.values)] = one.values

    def of(self, server: ServerSeries) -> ServerAnswers:
        """The values of one server."""
        own = {query: parts for (name, query), parts in self.values.items() if name == server.name}
        return ServerAnswers(self.quarters, own)


@dataclass(frozen=True)
class ServerAnswers:
    """The values of one server, by query and part."""

    quarters: int
    values: Mapping[str, Mapping[str, Column]]

    def column(self, query: str) -> Column:
        """The values of a query without parts; nan where unknown."""
        return self.values.get(query, {}).get("", self.unknown())

    def part(self, query: str, part: str) -> Column:
        """The values of one part; nan where unknown."""
        return self.values.get(query, {}).get(part, self.unknown())

    def parts(self, query: str) -> Sequence[str]:
        """The parts of a query."""
        return list(self.values.get(query, {}))

    def last(self, query: str) -> float | None:
        """The last known value of a query without parts."""
        return last_known(self.column(query))

    def unknown(self) -> Column:
        """A column of nan."""
        return np.full(self.quarters, np.nan)
