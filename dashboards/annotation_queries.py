"""Marks in every graph: alerts that fired, and events that the exporter counted. Each at its own time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import AnnotationQuery

from dashboards.panels.panel_options import DATASOURCE
from dashboards.selector import RATE, Scope

Annotations = Sequence[Builder[AnnotationQuery]]

_EVENTS = "uwsgi_events_total"
_STEP = "$__interval"
"""The distance between two points of the graph."""


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
    began = f"max_over_time({since}{RATE}) * 1000 and ignoring (alertstate) max_over_time({fired}{RATE})"
    return _mark("Alerts", _with_subject(began), "red", "{{alertname}}", "{{severity}}: {{subject}}")


def reloads(scope: Scope) -> Builder[AnnotationQuery]:
    """Full reloads, which put uWSGI's counters back to zero."""
    return _events(scope, "Reloads", "purple", "reload")


def availability(scope: Scope) -> Builder[AnnotationQuery]:
    """When a server could no longer be read, and when it could again."""
    return _events(scope, "Down and up", "dark-red", "server_down|server_up")


def configuration(scope: Scope) -> Builder[AnnotationQuery]:
    """When the options that the exporter knows changed."""
    return _events(scope, "Configuration", "blue", "configuration_changed")


def workers(scope: Scope) -> Builder[AnnotationQuery]:
    """When the process of a worker ended."""
    return _events(scope, "Workers ended", "orange", "worker_ended")


def cheaper(scope: Scope) -> Builder[AnnotationQuery]:
    """When cheaper mode added or took away workers: not shown at first, since it does so all day."""
    return _events(scope, "Cheaper mode", "dark-green", "cheaper_up|cheaper_down", shown=False)


def verdicts(scope: Scope) -> Builder[AnnotationQuery]:
    """When the exporter came to another verdict: not shown at first, since the panels show why."""
    return _events(scope, "Verdicts", "dark-yellow", "verdict_changed", shown=False)


def exporter(scope: Scope) -> Builder[AnnotationQuery]:
    """When the exporter itself was started or did not sample: not shown at first."""
    return _events(scope, "Exporter", "text", "exporter_started|sampling_gap", shown=False)


def of_servers(scope: Scope) -> Annotations:
    """What changed on a whole server."""
    return [alerts(scope), reloads(scope), configuration(scope), availability(scope)]


def of_workers(scope: Scope) -> Annotations:
    """What replaced its workers."""
    return [alerts(scope), reloads(scope), workers(scope)]


def every(scope: Scope) -> Annotations:
    """All of them."""
    return [*of_servers(scope), workers(scope), cheaper(scope), verdicts(scope), exporter(scope)]


def _events(scope: Scope, name: str, colour: str, kinds: str, *, shown: bool = True) -> Builder[AnnotationQuery]:
    """A mark at the end of each step in which the counter of one of these kinds grew.

    The counter now is compared with the counter a step before: a reset is less, a series that begins or comes back has
    no counter before, and each event is in one step alone. (`increase` would estimate, and mark an event at every step
    whose range reaches back to it.)
    """
    count = scope.of(_EVENTS, f'kind=~"{kinds}"')
    times = f"({count} > {count} offset {_STEP}) * 0 + time() * 1000"
    in_words = f'label_replace({times}, "event", "$1 $2", "kind", "(.*)_(.*)")'
    expression = _with_subject(f'label_replace({in_words}, "event", "$1", "kind", "([^_]*)")')
    return _mark(name, expression, colour, "{{event}}", "{{subject}}", shown=shown)


def _with_subject(series: str) -> str:
    """The series with the label `subject`: which server, and which of its workers if any. (Grafana replaces a label
    that a series lacks by the label's name.)
    """
    worker = f'label_replace({series}, "worker", "worker $1", "worker_id", "(.+)")'
    return f'label_join({worker}, "subject", " ", "server", "instance", "worker")'


def _mark(name: str, expr: str, colour: str, title: str, text: str, *, shown: bool = True) -> Builder[AnnotationQuery]:
    """A mark at the time, in milliseconds, that is the value of `expr`: one, however many steps the graph has. (Grafana
    makes regions of values that are no further apart than its own step, and a row of marks of all others.)
    """
    query = _Query(name=name, datasource=DATASOURCE, enable=shown, icon_color=colour, expr=expr)
    query.texts = {"titleFormat": title, "textFormat": text, "step": "15s", "useValueForTime": True}
    return _Annotation(query)
