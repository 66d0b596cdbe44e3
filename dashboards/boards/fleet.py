"""Fleet: which service or server to inspect first."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models.dashboard import Dashboard

from alerts.thresholds import Thresholds
from dashboards import annotation_queries, links
from dashboards.page import Row, page
from dashboards.panels import threshold_colours, verdicts
from dashboards.panels.colours import coloured
from dashboards.panels.graphs import lines
from dashboards.panels.stats import figure
from dashboards.panels.tables import Column, table
from dashboards.selector import FLEET
from dashboards.signal import TIMES
from dashboards.signals import fleet, verdict
from dashboards.variables import variables, window

NARROW = {"First limit": 120, "Headroom": 90, "Threads busy": 110, "Requests": 90}
"""Widths in pixels of columns beside the words of verdicts."""


def dashboard(t: Thresholds) -> Dashboard:
    """Builds the dashboard."""
    columns = {
        "First limit": Column(width=150),
        "Headroom": Column(TIMES, 1, threshold_colours.headroom(t), width=100),
        fleet.UNTIL_WAIT: Column(TIMES, 1, width=150),
        "Threads busy": Column("percentunit", 0, threshold_colours.utilization(t), 1.0, width=170),
        "Unevenness costs": Column("percentunit", 0, threshold_colours.costly(), width=140),
        "Queue wait": Column("s", 0, width=105),
        "Response time": Column("s", 0, width=120),
        "Requests": Column("reqps", 1, width=105),
    }
    called = {"limit": "First limit"}
    hidden = Column(hidden=True)
    return page(
        links.FLEET,
        "All servers and services by headroom: which one to look at first, and which limit comes first there.",
        [*variables("uwsgi_up", many=True), window()],
        annotation_queries.of_servers(FLEET),
        [
            Row(
                "",
                [
                    figure(
                        verdict.NUMBERS,
                        8,
                        threshold_colours.none(),
                        named=True,
                        empty="0",
                        overrides=coloured({name: verdicts.COLOURS[name] for name in verdict.RANKS}),
                    ),
                    figure(fleet.LEAST, 4, threshold_colours.headroom(t), named=True, decimals=1, empty="-"),
                    figure(fleet.FIRING, 4, threshold_colours.any_is("red"), empty="none"),
                    figure(fleet.THREADS, 4, threshold_colours.utilization(t), decimals=0),
                    figure(fleet.QUEUE_WAIT, 4, threshold_colours.none(), named=True),
                ],
            ),
            Row(
                "Which servers need something, and what?",
                [
                    table(
                        fleet.SERVERS,
                        (24, 11),
                        {
                            "server": Column(links=links.to_server()),
                            "instance": Column(),
                            **verdicts.columns(cause=270, act=370),
                            "limit": Column(),
                            "job": hidden,
                            "service": hidden,
                        },
                        {
                            **{name: replace(columns[name], width=width) for name, width in NARROW.items()},
                            "Users wait": Column("s", 0, width=90),
                            "Rank": hidden,
                        },
                        called={**called, "verdict": "Verdict", "cause": "What is wrong", "do": "Do"},
                        tall=True,
                    ),
                ],
            ),
            Row(
                "How did it change?",
                [
                    lines(
                        fleet.HEADROOM, 12, logarithmic=True, beside=True, threshold=threshold_colours.headroom_low(t)
                    ),
                    lines(fleet.UTILIZATION, 12, most=1, beside=True),
                ],
            ),
            Row(
                "What do services get?",
                [
                    table(
                        fleet.SERVICES,
                        (24, 7),
                        {"service": Column(), "limit": Column()},
                        {
                            **columns,
                            "p95": Column("s", 1, width=90),
                            "Budget burns": Column(TIMES, 1, threshold_colours.burns(t), width=120),
                            "Servers": Column(width=80),
                        },
                        called=called,
                    ),
                    lines(fleet.REQUESTS_BY_SERVICE, 8, stacked=True),
                    lines(fleet.RESPONSE_TIME_BY_SERVICE, 8),
                    lines(fleet.PERCENTILES_BY_SERVICE, 8),
                ],
            ),
        ],
    )
