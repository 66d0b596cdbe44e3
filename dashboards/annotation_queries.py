"""Marks in every graph: alerts that fired, workers that were spawned, reloads. Each at its own time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import AnnotationQuery

from dashboards.panels.panel_options import DATASOURCE
from dashboards.selector import RATE, Scope

Annotations = Sequence[Builder[AnnotationQuery]]


class _Query(AnnotationQuery):
    """Grafana keeps the texts of an annotation from Prometheus beside what the library knows of."""

    texts: dict[str, Any]

    def to_json(self) -> dict[str, object]:
        return {**super().to_json(), **self.texts}


class _Annotation(Builder[AnnotationQuery]):
    def __init__(self, query: _Query) -> None:
        self._query = query

    def build(self) -> AnnotationQuery:
        return self._query


def alerts(scope: Scope, *more: str) -> Builder[AnnotationQuery]:
    """When the condition of an alert that fired began; `more` are matchers."""
    matchers = ('alertname=~"Uwsgi.*"', *more)
    since = scope.of("ALERTS_FOR_STATE", *matchers)
    fired = scope.of("ALERTS", *matchers, 'alertstate="firing"')
    return _mark(
        "Alerts",
        f"max_over_time({since}{RATE}) * 1000 and ignoring (alertstate) max_over_time({fired}{RATE})",
        "red",
        title="{{alertname}}",
        text="{{severity}}: {{server}} on {{instance}} {{worker_id}}",
    )


def spawns(scope: Scope) -> Builder[AnnotationQuery]:
    """When a worker was spawned. Of several at once the mark names one."""
    spawned = f"{scope.of('uwsgi_worker_last_spawn_time_seconds')} * 1000"
    return _mark("Spawns", f"topk(1, {spawned} > $__from)", "blue", "Worker {{worker_id}} spawned", "{{server}}")


def reloads(scope: Scope) -> Builder[AnnotationQuery]:
    """When the last worker was spawned after a full reload, which puts uWSGI's counters back to zero."""
    spawned = scope.of("uwsgi_worker_last_spawn_time_seconds")
    changed = f"changes({scope.of('uwsgi_server_reloads_total')}{RATE}) > 0"
    expression = f"max without (worker_id) ({spawned}) * 1000 and {changed}"
    return _mark("Reloads", expression, "purple", "uWSGI reloaded", "{{server}} on {{instance}}")


def every(scope: Scope) -> Annotations:
    """All of them."""
    return [alerts(scope), spawns(scope), reloads(scope)]


def _mark(name: str, expr: str, colour: str, title: str, text: str) -> Builder[AnnotationQuery]:
    """A mark at the time, in milliseconds, that is the value of `expr`: one, however many steps the graph has. (Grafana
    makes regions of values that are no further apart than its own step, and a row of marks of all others.)
    """
    query = _Query(name=name, datasource=DATASOURCE, enable=True, icon_color=colour, expr=expr)
    query.texts = {"titleFormat": title, "textFormat": text, "step": "15s", "useValueForTime": True}
    return _Annotation(query)
