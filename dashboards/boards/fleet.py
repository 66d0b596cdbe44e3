"""Fleet: which service or server to look at first."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from alerts.thresholds import Thresholds
from dashboards import annotation_queries, links
from dashboards.page import Row, page
from dashboards.panels import threshold_colours
from dashboards.panels.graphs import lines
from dashboards.panels.stats import figure
from dashboards.panels.tables import Column, table
from dashboards.selector import FLEET
from dashboards.signals import fleet
from dashboards.variables import variables, window

FULL_BAR = 5.0
"""Headroom of a full bar: more is plenty."""


def dashboard(t: Thresholds) -> Dashboard:
    """The dashboard."""
    headroom = Column("suffix:x", 1, threshold_colours.headroom(t), FULL_BAR, 210)
    busy = Column("percentunit", 0, threshold_colours.utilization(t), 1.0, 170)
    cost = Column("percentunit", 0, threshold_colours.costly(), width=140)
    seconds, requests = Column("s", 0, width=115), Column("reqps", 1, width=100)
    first = Column(width=150)
    called = {"limit": "Gives out first"}
    read = [("mappings", [{"type": "value", "options": {"0": {"text": "no", "color": "red"}, "1": {"text": "yes"}}}])]
    return page(
        links.FLEET,
        "All servers and services by headroom: which one to look at first, and what gives out there.",
        [*variables("uwsgi_up", many=True), window()],
        [annotation_queries.alerts(FLEET), annotation_queries.reloads(FLEET)],
        [
            Row(
                "",
                [
                    figure(fleet.LEAST, 6, threshold_colours.headroom(t), named=True, decimals=1, empty="-"),
                    figure(fleet.UNREADABLE, 3, threshold_colours.any_is("red")),
                    figure(fleet.FIRING, 3, threshold_colours.any_is("red"), empty="none"),
                    figure(fleet.THREADS, 3, threshold_colours.utilization(t), decimals=0),
                    figure(fleet.REQUESTS, 3, threshold_colours.none()),
                    figure(fleet.COST, 3, threshold_colours.costly(), named=True, decimals=0),
                    figure(fleet.QUEUE_WAIT, 3, threshold_colours.none(), named=True),
                ],
            ),
            Row(
                "Who has least left?",
                [
                    table(
                        fleet.SERVICES,
                        (24, 7),
                        {"service": Column(), "limit": Column()},
                        {
                            "Gives out first": first,
                            "Headroom": headroom,
                            "Threads busy": busy,
                            "Unevenness costs": cost,
                            "Queue wait": seconds,
                            "Response time": seconds,
                            "Requests": requests,
                            "Servers": Column(width=80),
                        },
                        called=called,
                    ),
                    table(
                        fleet.SERVERS,
                        (24, 10),
                        {
                            "server": Column(more=[("links", links.to_server())]),
                            "instance": Column(),
                            "limit": Column(),
                        },
                        {
                            "Gives out first": first,
                            "Headroom": headroom,
                            "Threads busy": busy,
                            "Hot worker": Column("suffix:x", 2, threshold_colours.hot(t), width=100),
                            "Unevenness costs": cost,
                            "Queue wait": seconds,
                            "Response time": seconds,
                            "Requests": requests,
                            "Read": Column(width=60, more=read),
                        },
                        called=called,
                    ),
                ],
            ),
            Row(
                "Since when?",
                [
                    lines(
                        fleet.HEADROOM, 12, logarithmic=True, beside=True, threshold=threshold_colours.headroom_low(t)
                    ),
                    lines(fleet.UTILIZATION, 12, most=1, beside=True),
                    lines(fleet.REQUESTS_BY_SERVICE, 12, stacked=True),
                    lines(fleet.RESPONSE_TIME_BY_SERVICE, 12),
                ],
            ),
        ],
    )
