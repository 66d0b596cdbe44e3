"""Marks in every graph: alerts that fired, workers that were spawned, reloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import AnnotationQuery

from dashboards.looks.dressed import DATASOURCE
from dashboards.selector import Scope

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


def alerts(scope: Scope) -> Builder[AnnotationQuery]:
    """From when to when an alert of a server fired."""
    firing = scope.of("ALERTS", 'alertname=~"Uwsgi.*"', 'alertstate="firing"')
    return _annotation("Alerts", firing, "red", title="{{alertname}}", text="{{server}} {{worker_id}}", tags="severity")


def pages(scope: Scope) -> Builder[AnnotationQuery]:
    """From when to when there was a page, to the hour: for months."""
    firing = scope.of("ALERTS", 'alertname=~"Uwsgi.*"', 'alertstate="firing"', 'severity="critical"')
    return _annotation("Pages", firing, "red", title="{{alertname}}", text="{{server}} on {{instance}}", step="1h")


def spawns(scope: Scope) -> Builder[AnnotationQuery]:
    """When a worker was spawned, at its own second. Of several at once the mark names one."""
    spawned = scope.of("uwsgi_worker_last_spawn_time_seconds")
    return _annotation(
        "Spawns",
        f"topk(1, {spawned} * 1000 > $__from)",
        "blue",
        title="Worker {{worker_id}} spawned",
        text="{{server}}",
        useValueForTime=True,
    )


def reloads(scope: Scope) -> Builder[AnnotationQuery]:
    """Full reloads, which put uWSGI's counters back to zero."""
    return _annotation(
        "Reloads",
        f"max by (server) (changes({scope.of('uwsgi_server_reloads_total')}[2m])) > bool 0 == 1",
        "purple",
        title="uWSGI reloaded",
        text="{{server}}",
    )


def every(scope: Scope) -> Annotations:
    """All of them."""
    return [alerts(scope), spawns(scope), reloads(scope)]


def _annotation(
    name: str, expr: str, colour: str, *, title: str, text: str, tags: str = "", step: str = "15s", **more: Any
) -> Builder[AnnotationQuery]:
    query = _Query(name=name, datasource=DATASOURCE, enable=True, icon_color=colour, expr=expr)
    query.texts = {"titleFormat": title, "textFormat": text, "tagKeys": tags, "step": step, **more}
    return _Annotation(query)
