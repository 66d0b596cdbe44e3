"""The variables at the top of all dashboards."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import DatasourceVariable, QueryVariable, TextBoxVariable
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    VariableHide,
    VariableModel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.panels.panel_options import DATASOURCE

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
