"""Options that every kind of panel has: name, description, unit, queries, size."""

from __future__ import annotations

from string import ascii_uppercase
from typing import Any, Protocol, TypeVar

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.models.dashboard import DataSourceRef
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.signal import Series, Signal

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The Prometheus that the user chooses on the dashboard; no data source is fixed."""

EMPTY = "Empty "
"""Begins the part of a description that says why a panel may be empty."""


class Panel(Protocol):
    """The methods that the builders of all kinds of panels share."""

    def title(self, title: str) -> Any: ...
    def description(self, description: str) -> Any: ...
    def unit(self, unit: str) -> Any: ...
    def datasource(self, datasource: DataSourceRef) -> Any: ...
    def with_target(self, target: prometheus.Dataquery) -> Any: ...
    def no_value(self, no_value: str) -> Any: ...
    def span(self, w: int) -> Any: ...
    def height(self, h: int) -> Any: ...


P = TypeVar("P", bound=Panel)


def apply_panel_options(
    panel: P, signal: Signal, size: tuple[int, int], how: PromQueryFormat = PromQueryFormat.TIME_SERIES, step: str = ""
) -> P:
    """Sets name, description, unit, queries and size of `panel` from `signal`. size: width in 24ths of the page, and
    height in Grafana's units; step: the least interval between points, such as `1m`.
    """
    panel.title(signal.name).description(signal.description).unit(signal.unit).datasource(DATASOURCE)
    panel.span(size[0]).height(size[1])
    for letter, series in zip(ascii_uppercase, signal.series, strict=False):
        panel.with_target(_query(letter, series, how, step))
    return panel


def say_why_empty(panel: P, signal: Signal) -> P:
    """Shows the end of the description, which says why the panel may be empty, in place of Grafana's `No data`."""
    if EMPTY in signal.description:
        panel.no_value(signal.description[signal.description.index(EMPTY) :])
    return panel


def _query(letter: str, series: Series, how: PromQueryFormat, step: str) -> prometheus.Dataquery:
    query = prometheus.Dataquery().ref_id(letter).datasource(DATASOURCE).expr(series.expr).format(how)
    query = query.legend_format(series.legend or "__auto")
    if step:
        query.interval(step)
    return query.instant() if series.now else query.range()
