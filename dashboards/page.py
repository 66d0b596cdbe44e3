"""Builds a dashboard from its rows of panels and the settings that all dashboards share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import Dashboard, DashboardCursorSync, Panel

from dashboards import links
from dashboards.annotation_queries import Annotations
from dashboards.variables import Variables

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
    board = builders.Dashboard(f"uWSGI: {links.TITLES[uid].lower()}").uid(uid).description(description).tags([TAG])
    board.time(times.start, "now").refresh(times.refresh).tooltip(DashboardCursorSync.CROSSHAIR).readonly()
    board.variables(variables).links(list(links.links(uid))).annotations(list(annotations))
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
