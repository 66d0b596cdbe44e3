"""A dashboard: its rows of panels between what all of them have."""

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
"""Grafana 9.0's. Later ones bring a dashboard up to their own when they load it; none goes back."""

TAG = "uwsgi-headroom"


Panels = Sequence[Builder[Panel]]


@dataclass(frozen=True)
class Row:
    """Panels that answer one question, which is its title; the first of a page has none. folded: not shown at first."""

    title: str
    panels: Panels
    folded: bool = False


@dataclass(frozen=True)
class Times:
    """The time that is shown at first, to now, and how often it is refreshed; never if empty."""

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
    """Put together what Grafana reads."""
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
    """Panels are known by their numbers, in links and in what Grafana remembers."""
    number = 0
    for outer in board.panels or []:
        for panel in (outer, *getattr(outer, "panels", [])):
            number += 1
            panel.id_val = number
