"""The servers that a Prometheus knows, and the queries that fill a review's columns, from the counters of
docs/metrics.md.

Growth is taken from the last scrape before a quarter of an hour to the last one in it: `increase` over the quarter and
one interval between scrapes. It extrapolates every counter of a server by the same factor, because all are of the same
scrapes; so a ratio to the growth of the exporter's own clock has no error of extrapolation, and nothing that happens
between two quarters is lost.

The answers are kept by query, server and part: the label by which the series of one server differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from uwsgi_headroom.analysis.findings import OTHER_LIMITS
from uwsgi_headroom.report.columns import STEP, Column, last_known
from uwsgi_headroom.report.sources.prometheus_api import Labels, PrometheusApi, Series

OBSERVED = "uwsgi_exporter_observed_seconds_total"
"""Exported for each server, whatever is known of it; no other exporter has it."""

HOUR = 3600.0
_PIECE = 7 * 86400.0
_MANY = 0.75
_LONGEST_INTERVAL = 300.0
_SHORTEST_INTERVAL = 5.0

INSTANCE_LABELS = ("instance", "pod", "node")
"""Labels by which the servers of one service may differ: as in alerts, see docs/severity.md."""


class ServerSeries(Struct, frozen=True):
    """A server as Prometheus knows it. labels: all that its series have in common; name: unique; interval: seconds
    between two scrapes."""

    name: str
    service: str
    host: str
    labels: Labels
    interval: float


def find_servers(
    api: PrometheusApi, since: float, until: float, instance_labels: Sequence[str] = INSTANCE_LABELS
) -> list[ServerSeries]:
    """The servers with scrapes in a range, by name. Servers of one name are one service if all their labels but
    instance_labels are equal. Raises PrometheusError."""
    pieces: list[Series] = []
    first = since + STEP
    while first <= until:
        last = min(until, first + _PIECE - STEP)
        expression = f"count_over_time({OBSERVED}[{STEP:.0f}s])"
        pieces += api.query_range(expression, expression, first, last, STEP)
        first = last + STEP
    by_labels: dict[frozenset[tuple[str, str]], list[Series]] = {}
    for piece in pieces:
        by_labels.setdefault(frozenset(piece.labels.items()), []).append(piece)
    found = [
        _server(group[0].labels, np.concatenate([piece.values for piece in group])) for group in by_labels.values()
    ]
    return _name(found, instance_labels)


def _server(labels: Labels, counts: Column) -> ServerSeries:
    scraped = counts[counts > 0]
    # In a quarter of an hour in which scrapes began or were missing, there are fewer.
    often = float(np.quantile(scraped, _MANY, method="higher")) if len(scraped) else 1.0
    own = {name: value for name, value in labels.items() if name != "__name__"}
    return ServerSeries(
        name=own.get("server", ""),
        service=own.get("service") or own.get("server", ""),
        host=own.get("instance", ""),
        labels=own,
        interval=min(_LONGEST_INTERVAL, max(_SHORTEST_INTERVAL, STEP / often)),
    )


def _name(found: Sequence[ServerSeries], instance_labels: Sequence[str]) -> list[ServerSeries]:
    """The same servers with unique names, and services that differ if another label than the instance's does."""
    names = _tell_apart([server.name for server in found], [server.labels for server in found])
    wider = [
        {key: text for key, text in server.labels.items() if key not in (*instance_labels, "server")}
        for server in found
    ]
    services = _tell_apart([server.service for server in found], wider)
    named = [
        replace(server, name=name, service=service)
        for server, name, service in zip(found, names, services, strict=True)
    ]
    return sorted(named, key=lambda server: server.name)


def _tell_apart(names: Sequence[str], labels: Sequence[Labels]) -> list[str]:
    """The names, with as few labels' values as it takes that equal names have equal labels; the instance first."""
    apart = list(names)
    for label in ("instance", *sorted({label for each in labels for label in each} - {"instance"})):
        meant: dict[str, set[frozenset[tuple[str, str]]]] = {}
        for name, each in zip(apart, labels, strict=True):
            meant.setdefault(name, set()).add(frozenset(each.items()))
        values: dict[str, set[str]] = {}
        for name, each in zip(apart, labels, strict=True):
            values.setdefault(name, set()).add(each.get(label, ""))
        apart = [
            f"{name} {each.get(label, '')}".strip() if len(meant[name]) > 1 and len(values[name]) > 1 else name
            for name, each in zip(apart, labels, strict=True)
        ]
    return apart


def list_foreign_names(api: PrometheusApi, until: float) -> frozenset[str]:
    """The names of uWSGI metrics at a time, whichever exporter they are from. Raises PrometheusError."""
    expression = 'count by (__name__) ({__name__=~"uwsgi_.+"})'
    series = api.query_range(expression, expression, until, until, HOUR)
    return frozenset(each.labels.get("__name__", "") for each in series)


def select_by_any(servers: Sequence[ServerSeries]) -> str:
    """Matchers that select the series of these servers, and perhaps of others, which differ in a label."""
    parts = []
    for label in sorted(set.intersection(*(set(server.labels) for server in servers))):
        values = sorted({server.labels[label] for server in servers})
        pattern = "|".join(re.escape(value) for value in values)
        parts.append(f'{label}="{_escape(values[0])}"' if len(values) == 1 else f'{label}=~"{_escape(pattern)}"')
    return ",".join(parts)


def _escape(text: str) -> str:
    """A label's value in PromQL's double quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


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


class Question(Struct, frozen=True):
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
        Question(
            "limits",
            "cause",
            "sum without (verdict, harm) (count_over_time(uwsgi_verdict_info"
            f'{{%s,cause=~"{"|".join(OTHER_LIMITS)}"}}[{STEP:.0f}s])) * {interval / STEP:g}',
        ),
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


class Answers(Struct):
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
        own = {query: parts for (name, query), parts in self.values.items() if name == server.name}
        return ServerAnswers(self.quarters, own)


class ServerAnswers(Struct, frozen=True):
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
        return list(self.values.get(query, {}))

    def last(self, query: str) -> float | None:
        """The last known value of a query without parts."""
        return last_known(self.column(query))

    def unknown(self) -> Column:
        return np.full(self.quarters, np.nan)
