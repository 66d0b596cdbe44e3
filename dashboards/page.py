"""Builds a dashboard from its rows of panels, and what all share: links, variables, settings, and marks of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders.dashboard import DashboardLink, DatasourceVariable, QueryVariable, TextBoxVariable
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    AnnotationQuery,
    Dashboard,
    DashboardCursorSync,
    DashboardLinkType,
    Panel,
    VariableHide,
    VariableModel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

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


FLEET, SERVER = "uwsgi-headroom-fleet", "uwsgi-headroom-server"
AFFINITY, CAPACITY = "uwsgi-headroom-affinity", "uwsgi-headroom-capacity"
"""Uids. They never change, because alerts link to them."""

TITLES = {FLEET: "Fleet", SERVER: "Server", AFFINITY: "Affinity", CAPACITY: "Capacity review"}
ONE_SERVER = (SERVER, AFFINITY)
"""The dashboards of one server. The others show many servers, and their choice `All` has no meaning for these."""

_SHARED = "${datasource:queryparam}&${service_label:queryparam}&${service:queryparam}"


def links(at: str) -> Sequence[DashboardLink]:
    """Links from the dashboard `at` to every other one."""
    return [_link(at, uid) for uid in TITLES if uid != at]


def _link(at: str, to: str) -> DashboardLink:
    """A link that keeps all variables if the target has the same kind, and the time except to and from the capacity
    review."""
    every = to == CAPACITY or (at in ONE_SERVER) == (to in ONE_SERVER)
    link = DashboardLink(TITLES[to]).type(DashboardLinkType.LINK).icon("dashboard").include_vars(every)
    link.keep_time(CAPACITY not in (at, to))
    return link.url(f"/d/{to}" if every else f"/d/{to}?{_SHARED}")


def to_server(*, now: bool = False) -> list[dict[str, object]]:
    """A link from a line with `job`, `instance` and `server` to the dashboard of that server. now: at that dashboard's
    default time, not at the time shown here.
    """
    chosen = "&".join(f"var-{label}=${{__data.fields.{label}}}" for label in ("job", "instance", "server"))
    time = "" if now else "&${__url_time_range}"
    return [{"title": "Open this server", "url": f"/d/{SERVER}?{_SHARED}&{chosen}{time}"}]


Variables = list[Builder[VariableModel]]
_DEFAULT = VariableOption(selected=True, text="default", value="default")
"""Grafana's default data source; otherwise Grafana would take the first by the alphabet."""
_ALL = VariableOption(selected=True, text="All", value="$__all")


def variables(metric: str, *, many: bool) -> Variables:
    """Variables that choose servers; each narrows the next. metric: its series define the servers; many: whether
    several may be chosen, or exactly one.
    """
    service = '$service_label=~"$service"'
    job = f'{service}, job{"=~" if many else "="}"$job"'
    instance = f'{job}, instance{"=~" if many else "="}"$instance"'
    service_of = _query("service", "Service", f"label_values({metric}, $service_label)", many=True)
    return [
        DatasourceVariable("datasource").label("Data source").type("prometheus").current(_DEFAULT),
        # Chosen once for a site, by the address or in the settings: at the top it would only take room.
        _text("service_label", "Service is label", "server").hide(VariableHide.HIDE_VARIABLE),
        service_of.hide(VariableHide.DONT_HIDE if many else VariableHide.HIDE_VARIABLE),
        _query("job", "Job", f"label_values({metric}{{{service}}}, job)", many=many),
        _query("instance", "Instance", f"label_values({metric}{{{job}}}, instance)", many=many),
        _query("server", "Server", f"label_values({metric}{{{instance}}}, server)", many=many),
    ]


def window() -> Builder[VariableModel]:
    """The window of the exporter's figures; the longest is the default, because it is the steadiest."""
    variable = _query("window", "Figures over", "label_values(uwsgi_window_seconds, window)", many=False)
    return variable.sort(VariableSort.NUMERICAL_DESC)


def utc_offset() -> Builder[VariableModel]:
    """The time zone, as an offset, because PromQL has no time zones."""
    return _text("utc_offset", "Hours from UTC", "0")


def _text(name: str, label: str, value: str) -> TextBoxVariable:
    """A text variable. Grafana 9 needs the value in all three places."""
    chosen = VariableOption(selected=True, text=value, value=value)
    return TextBoxVariable(name).label(label).default_value(value).current(chosen).options([chosen])


def _query(name: str, label: str, query: str, *, many: bool) -> QueryVariable:
    variable = QueryVariable(name).label(label).datasource(DATASOURCE)
    variable.query({"query": query, "refId": name}).refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    variable.sort(VariableSort.ALPHABETICAL_ASC).multi(many).include_all(many)
    # `.*` also matches servers without the label.
    return variable.all_value(".*").current(_ALL) if many else variable


SCHEMA_VERSION = 36
"""The schema of Grafana 9.0. Later versions upgrade a dashboard when they load it; none can downgrade one."""

TAG = "uwsgi-headroom"


Panels = Sequence[Builder[Panel]]


@dataclass(frozen=True)
class Row:
    """Panels that answer one question, the title; the first row of a page has no title. folded: collapsed at first."""

    title: str
    panels: Panels
    folded: bool = False


@dataclass(frozen=True)
class Times:
    """The default time range, from `start` to now, and the interval of refreshes; empty for none."""

    start: str
    refresh: str


LIVE = Times("now-1h", "30s")


def page(
    uid: str,
    description: str,
    variables: Variables,
    annotations: Annotations,
    rows: Sequence[Row],
    times: Times = LIVE,
) -> Dashboard:
    """Builds the dashboard."""
    board = builders.Dashboard(f"uWSGI: {TITLES[uid].lower()}").uid(uid).description(description).tags([TAG])
    board.time(times.start, "now").refresh(times.refresh).tooltip(DashboardCursorSync.CROSSHAIR).readonly()
    board.variables(variables).links(list(links(uid))).annotations(list(annotations))
    for row in rows:
        folded = builders.Row(row.title).collapsed(row.folded)
        if row.title:
            for panel in row.panels if row.folded else ():
                folded.with_panel(panel)
            board.with_row(folded)
        for panel in () if row.folded else row.panels:
            board.with_panel(panel)
    made = board.build()
    made.schema_version = SCHEMA_VERSION
    _number(made)
    return made


def _number(board: Dashboard) -> None:
    """Numbers the panels. Links and Grafana's own state refer to panels by number."""
    number = 0
    for outer in board.panels or []:
        for panel in (outer, *getattr(outer, "panels", [])):
            number += 1
            panel.id_val = number
