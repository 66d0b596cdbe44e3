"""Fleet: which service or server to look at first."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from alerts.thresholds import Thresholds
from dashboards import links, marks
from dashboards.looks import verdicts
from dashboards.looks.figures import figure
from dashboards.looks.graphs import lines
from dashboards.looks.tables import Column, table
from dashboards.page import Row, page
from dashboards.selector import FLEET
from dashboards.signals import fleet as it
from dashboards.variables import variables, window

FULL_BAR = 5.0
"""Headroom of a full bar: more is plenty."""


def dashboard(t: Thresholds) -> Dashboard:
    """The dashboard."""
    headroom = Column("suffix:x", 1, verdicts.headroom(t), FULL_BAR, 210)
    busy = Column("percentunit", 0, verdicts.utilization(t), 1.0, 170)
    cost = Column("percentunit", 0, verdicts.costly(), width=140)
    seconds, requests = Column("s", 0, width=115), Column("reqps", 1, width=100)
    first = Column(width=150)
    called = {"limit": "Gives out first"}
    read = [("mappings", [{"type": "value", "options": {"0": {"text": "no", "color": "red"}, "1": {"text": "yes"}}}])]
    return page(
        links.FLEET,
        "All servers and services by headroom: which one to look at first, and what gives out there.",
        [*variables("uwsgi_up", many=True), window()],
        [marks.alerts(FLEET), marks.reloads(FLEET)],
        [
            Row(
                "",
                [
                    figure(it.LEAST, 6, verdicts.headroom(t), named=True, decimals=1, empty="-"),
                    figure(it.UNREADABLE, 3, verdicts.any_is("red")),
                    figure(it.FIRING, 3, verdicts.any_is("red"), empty="none"),
                    figure(it.THREADS, 3, verdicts.utilization(t), decimals=0),
                    figure(it.REQUESTS, 3, verdicts.none()),
                    figure(it.COST, 3, verdicts.costly(), named=True, decimals=0),
                    figure(it.QUEUE_WAIT, 3, verdicts.none(), named=True),
                ],
            ),
            Row(
                "Who has least left?",
                [
                    table(
                        it.SERVICES,
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
                        it.SERVERS,
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
                            "Hot worker": Column("suffix:x", 2, verdicts.hot(t), width=100),
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
                    lines(it.HEADROOM, 12, logarithmic=True, beside=True, threshold=verdicts.headroom_low(t)),
                    lines(it.UTILIZATION, 12, most=1, beside=True),
                    lines(it.REQUESTS_BY_SERVICE, 12, stacked=True),
                    lines(it.RESPONSE_TIME_BY_SERVICE, 12),
                ],
            ),
        ],
    )
