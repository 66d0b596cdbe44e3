"""The servers that a Prometheus knows, and the queries that a review's records are made of (docs/metrics.md).

Growth is taken from the last scrape before a quarter of an hour to the last one in it: `increase` over the quarter and
one interval between scrapes. It extrapolates all counters of a server by the same factor; so a ratio to the growth of
the exporter's own clock has no error of extrapolation, and nothing that happens between two quarters is lost.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.analysis.findings import OTHER_LIMITS
from uwsgi_headroom.numbers import percentile
from uwsgi_headroom.report.quarters import STEP
from uwsgi_headroom.report.sources.prometheus_api import Labels, PrometheusApi, Series
from uwsgi_headroom.report.sources.selection import Named, TimeRange

OBSERVED = "uwsgi_exporter_observed_seconds_total"
"""Exported for each server, whatever is known of it; no other exporter has it."""

_MANY = 0.75
_LONGEST_INTERVAL = 300.0
_SHORTEST_INTERVAL = 5.0

INSTANCE_LABELS = ("instance", "pod", "node")
"""Labels by which the servers of one service may differ: as in alerts, see docs/severity.md."""


class ServerSeries(Named, frozen=True):
    """A server as Prometheus knows it. labels: all that its series have in common; interval: seconds between two
    scrapes."""

    labels: Labels
    interval: float


def find_servers(api: PrometheusApi, span: TimeRange) -> list[ServerSeries]:
    """The servers with scrapes in a range, by name. Servers of one name are one service if all their labels but
    INSTANCE_LABELS are equal. Raises PrometheusError."""
    by_labels: dict[frozenset[tuple[str, str]], list[Series]] = {}
    for ends in span.cut():
        for series in api.query_range(f"count_over_time({OBSERVED}[{STEP:.0f}s])", ends[0], ends[-1], STEP):
            by_labels.setdefault(frozenset(series.labels.items()), []).append(series)
    found = [
        _server(group[0].labels, sorted(value for piece in group for value in piece.values.values() if value))
        for group in by_labels.values()
    ]
    names = _tell_apart([server.name for server in found], [server.labels for server in found])
    wider = [
        {key: text for key, text in server.labels.items() if key not in (*INSTANCE_LABELS, "server")}
        for server in found
    ]
    services = _tell_apart([server.service for server in found], wider)
    named = [replace(each, name=name, service=of) for each, name, of in zip(found, names, services, strict=True)]
    return sorted(named, key=lambda server: server.name)


def _server(labels: Labels, counts: Sequence[float]) -> ServerSeries:
    """A server with so many scrapes in each quarter of an hour, ascending."""
    # In a quarter of an hour in which scrapes began or were missing, there are fewer.
    often = percentile(counts, _MANY) if counts else 1.0
    own = {name: value for name, value in labels.items() if name != "__name__"}
    return ServerSeries(
        name=own.get("server", ""),
        service=own.get("service") or own.get("server", ""),
        host=own.get("instance", ""),
        labels=own,
        interval=min(_LONGEST_INTERVAL, max(_SHORTEST_INTERVAL, STEP / often)),
    )


def _tell_apart(names: Sequence[str], labels: Sequence[Labels]) -> list[str]:
    """The names, with as few labels as it takes that equal names have equal labels; the instance first."""
    apart = list(names)
    for label in ("instance", *sorted({label for each in labels for label in each} - {"instance"})):
        alike: dict[str, list[Labels]] = {}
        for name, each in zip(apart, labels, strict=True):
            alike.setdefault(name, []).append(each)
        differing = {name for name, group in alike.items() if len({each.get(label, "") for each in group}) > 1}
        apart = [
            f"{name} {each.get(label, '')}".strip() if name in differing else name
            for name, each in zip(apart, labels, strict=True)
        ]
    return apart


def list_foreign_names(api: PrometheusApi, until: float) -> frozenset[str]:
    """The names of uWSGI metrics at a time, whichever exporter they are from. Raises PrometheusError."""
    expression = 'count by (__name__) ({__name__=~"uwsgi_.+"})'
    series = api.query_range(expression, until, until, STEP)
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


Clock = Literal["sampled", "waits", "whole", "level"]
"""What the growth of a counter is divided by: the time that the exporter sampled, that in which it saw waits, or all of
it, because uWSGI's own counters go on in gaps. A level does not grow."""

_COUNTERS: Sequence[tuple[str, Clock, str, str]] = (
    ("observed", "level", "", OBSERVED),
    ("gap", "level", "", "uwsgi_exporter_sample_gap_seconds_total"),
    ("wait_observed", "level", "", "uwsgi_wait_observed_seconds_total"),
    ("full_seconds", "sampled", "", "uwsgi_full_occupancy_seconds_total"),
    ("reloads", "whole", "", "uwsgi_server_reloads_total"),
    ("overflows", "whole", "", "uwsgi_listen_overflows_total"),
    ("own_seconds", "sampled", "", "uwsgi_cpu_used_by_workers_seconds_total"),
    ("idle_seconds", "sampled", "", "uwsgi_cpu_available_idle_seconds_total"),
    ("others_seconds", "sampled", "", "uwsgi_cpu_used_by_others_seconds_total"),
    ("judged", "whole", "", "uwsgi_slo_requests_total"),
    ("missed", "whole", "reason", "uwsgi_slo_bad_requests_total"),
    ("by_time", "whole", "le", "uwsgi_response_time_seconds_bucket"),
    ("requests", "whole", "worker_id", "uwsgi_worker_requests_total"),
    ("static_requests", "whole", "worker_id", "uwsgi_worker_static_requests_total"),
    ("running_time", "whole", "worker_id", "uwsgi_worker_running_time_seconds_total"),
    ("busy_seconds", "sampled", "worker_id", "uwsgi_worker_busy_thread_seconds_total"),
    ("interpreter_lock_seconds", "waits", "worker_id", "uwsgi_worker_interpreter_lock_wait_thread_seconds_total"),
    ("lost", "whole", "worker_id", "uwsgi_worker_lost_requests_total"),
    ("exceptions", "whole", "worker_id", "uwsgi_worker_exceptions_total"),
    ("harakiris", "whole", "worker_id", "uwsgi_worker_harakiri_total"),
    ("respawns", "whole", "worker_id", "uwsgi_worker_respawns_total"),
    ("queue_seconds", "sampled", "socket", "uwsgi_socket_queue_seconds_total"),
    ("queue_full_seconds", "sampled", "socket", "uwsgi_socket_queue_full_seconds_total"),
    ("waits", "waits", "state", "uwsgi_wait_thread_seconds_total"),
    ("backends", "waits", "backend", "uwsgi_backend_wait_thread_seconds_total"),
    ("routes", "sampled", "route", "uwsgi_route_busy_thread_seconds_total"),
)
"""What each counter fills, and the label in which the series of a server differ, if it has several."""

_LEVELS = {
    "configured": "uwsgi_threads_configured",
    "cpus": "uwsgi_cpus_usable",
    "memory_available": "uwsgi_memory_available_bytes",
    "thunder_lock": "uwsgi_thunder_lock",
    "own_sockets": "uwsgi_workers_with_own_sockets",
    "threshold": "uwsgi_slo_threshold_seconds",
    "objective": "uwsgi_slo_objective_ratio",
}


class Question(Struct, frozen=True):
    """A query. name: of what it fills; template: the expression, with `%s` for the label matchers; part: the label in
    which its series of one server differ, or none."""

    name: str
    template: str
    part: str = ""
    clock: Clock = "level"

    def expression(self, matchers: str) -> str:
        """The expression for the servers that the matchers select."""
        return self.template.replace("%s", matchers)


def list_questions(interval: float) -> Sequence[Question]:
    """All queries of servers that are scraped every `interval` seconds."""
    span = growth_seconds(interval)

    def growth(metric: str) -> str:
        return f"increase({metric}{{%s}}[{span:.0f}s])"

    part = interval / STEP
    cpu = f"sum without (mode) ({growth('uwsgi_worker_cpu_seconds_total')})"
    limits = f'uwsgi_verdict_info{{%s,cause=~"{"|".join(OTHER_LIMITS)}"}}[{STEP:.0f}s]'
    return [
        *(Question(name, growth(metric), part, clock) for name, clock, part, metric in _COUNTERS),
        *(Question(name, f"{metric}{{%s}}") for name, metric in _LEVELS.items()),
        Question("cpu_seconds", cpu, "worker_id", "whole"),
        Question("accepting", f"avg_over_time(uwsgi_worker_accepting{{%s}}[{STEP:.0f}s])", "worker_id"),
        Question("available", f"avg_over_time(uwsgi_threads_available{{%s}}[{STEP:.0f}s])"),
        Question("memory_per_worker", "max without (worker_id) (uwsgi_worker_unique_memory_bytes{%s})"),
        Question("resident", "max without (worker_id) (uwsgi_worker_resident_memory_bytes{%s})"),
        Question("limits", f"sum without (verdict, harm) (count_over_time({limits})) * {part:g}", "cause"),
    ]


def growth_seconds(interval: float) -> float:
    """The seconds of which growth is asked for: a quarter of an hour, and one interval between scrapes."""
    return STEP + math.ceil(interval)


Values = dict[str, dict[str, dict[float, float]]]
"""What was answered about a server, by query and part ("" without parts), each by the end of the quarter."""


def add_answers(
    known: dict[str, Values], question: Question, servers: Iterable[ServerSeries], series: Iterable[Series]
) -> None:
    """Add the answer to a question about these servers, by their names. Series of other servers are left out."""
    names = {frozenset(server.labels.items()): server.name for server in servers}
    for one in series:
        own = {label: text for label, text in one.labels.items() if label not in ("__name__", question.part)}
        if name := names.get(frozenset(own.items())):
            parts = known.setdefault(name, {}).setdefault(question.name, {})
            parts.setdefault(one.labels.get(question.part, ""), {}).update(one.values)


CLOCKS: Mapping[str, Clock] = {question.name: question.clock for question in list_questions(STEP)}
"""Of each query."""
