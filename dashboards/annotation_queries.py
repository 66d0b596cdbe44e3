"""Marks in every graph, at the times of alerts that fired and of events that the exporter counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import AnnotationQuery

from dashboards.panels.panel_options import DATASOURCE
from dashboards.signal import RATE, Scope

Annotations = Sequence[Builder[AnnotationQuery]]

_EVENTS = "uwsgi_events_total"
_STEP = "$__interval"
"""The time between two points of the graph."""


class _Query(AnnotationQuery):
    """Adds the texts of a Prometheus annotation, for which the library has no fields."""

    texts: dict[str, Any]

    def to_json(self) -> dict[str, object]:
        return {**super().to_json(), **self.texts}


class _Annotation(Builder[AnnotationQuery]):
    def __init__(self, query: _Query) -> None:
        self._query = query

    def build(self) -> AnnotationQuery:
        return self._query


def alerts(scope: Scope, *more: str) -> Builder[AnnotationQuery]:
    """Marks when the condition of a fired alert began; `more` are matchers."""
    matchers = ('alertname=~"Uwsgi.*"', *more)
    since = scope.of("ALERTS_FOR_STATE", *matchers)
    fired = scope.of("ALERTS", *matchers, 'alertstate="firing"')
    began = f"max_over_time({since}{RATE}) * 1000 and ignoring (alertstate) max_over_time({fired}{RATE})"
    named = f'label_join({_with_subject(began)}, "alert", " ", "alertname", "code")'
    return _mark("Alerts", named, "red", "{{alert}}", "{{severity}}: {{subject}}")


def reloads(scope: Scope) -> Builder[AnnotationQuery]:
    """Marks full reloads, which reset uWSGI's counters."""
    return _events(scope, "Reloads", "purple", "reload", fixed=True)


def availability(scope: Scope) -> Builder[AnnotationQuery]:
    """Marks when a server could no longer be read, and when it could be read again."""
    return _events(scope, "Down and up", "dark-red", "server_down|server_up", fixed=True)


def configuration(scope: Scope) -> Builder[AnnotationQuery]:
    """Marks changes of the uWSGI options that the exporter knows."""
    return _events(scope, "Configuration", "blue", "configuration_changed", fixed=True)


def workers(scope: Scope) -> Builder[AnnotationQuery]:
    """Marks the end of a worker process."""
    return _events(scope, "Workers ended", "orange", "worker_ended")


def cheaper(scope: Scope) -> Builder[AnnotationQuery]:
    """Marks when cheaper mode started or ended workers: hidden by default, because that happens all day."""
    return _events(scope, "Cheaper mode", "dark-green", "cheaper_up|cheaper_down", shown=False)


def verdicts(scope: Scope) -> Builder[AnnotationQuery]:
    """Marks changes of the exporter's verdict: hidden by default, because the panels show the cause."""
    return _events(scope, "Verdicts", "dark-yellow", "verdict_changed", shown=False)


def exporter(scope: Scope) -> Builder[AnnotationQuery]:
    """Marks starts of the exporter and gaps in its samples, which explain holes in all graphs."""
    return _events(scope, "Exporter", "text", "exporter_started|sampling_gap", fixed=True)


def of_servers(scope: Scope, *more: str) -> Annotations:
    """Marks of events of a whole server; `more` are matchers of alerts."""
    return [alerts(scope, *more), reloads(scope), configuration(scope), availability(scope)]


def of_workers(scope: Scope) -> Annotations:
    """Marks of events that replace workers."""
    return [alerts(scope), reloads(scope), workers(scope)]


def every(scope: Scope) -> Annotations:
    """All marks."""
    return [*of_servers(scope), workers(scope), cheaper(scope), verdicts(scope), exporter(scope)]


def _events(
    scope: Scope, name: str, colour: str, kinds: str, *, shown: bool = True, fixed: bool = False
) -> Builder[AnnotationQuery]:
    """A mark at the end of each step in which the counter of one of these kinds grew.

    Compares the counter with its value one step before: after a reset it is smaller, a series that begins or returns
    has no value before, and each event falls into exactly one step. (`increase` would extrapolate, and mark an event at
    every step whose range includes it.)
    """
    count = scope.of(_EVENTS, f'kind=~"{kinds}"')
    times = f"({count} > {count} offset {_STEP}) * 0 + time() * 1000"
    in_words = f'label_replace({times}, "event", "$1 $2", "kind", "(.*)_(.*)")'
    expression = _with_subject(f'label_replace({in_words}, "event", "$1", "kind", "([^_]*)")')
    return _mark(name, expression, colour, "{{event}}", "{{subject}}", shown=shown, fixed=fixed)


def _with_subject(series: str) -> str:
    """The series with the label `subject`: the server, and the worker if there is one. (Grafana shows the name of a
    label that a series lacks.)
    """
    worker = f'label_replace({series}, "worker", "worker $1", "worker_id", "(.+)")'
    return f'label_join({worker}, "subject", " ", "server", "instance", "worker")'


def _mark(
    name: str, expr: str, colour: str, title: str, text: str, *, shown: bool = True, fixed: bool = False
) -> Builder[AnnotationQuery]:
    """One mark at the time that is the value of `expr`, in milliseconds, however many steps the graph has. (Otherwise
    Grafana would turn values within one step into regions, and all others into a row of marks.) fixed: rare and always
    shown, so that its switch would only take room at the top.
    """
    query = _Query(name=name, datasource=DATASOURCE, enable=shown, hide=fixed, icon_color=colour, expr=expr)
    query.texts = {"titleFormat": title, "textFormat": text, "step": "15s", "useValueForTime": True}
    return _Annotation(query)
