"""Finds the uWSGI servers that a Prometheus knows: their labels, and how often they were scraped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from uwsgi_headroom.report.columns import STEP, Column
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


@dataclass(frozen=True, slots=True)
class ServerSeries:
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
