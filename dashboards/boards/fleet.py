"""Fleet: which service or server to inspect first."""

from __future__ import annotations

from dataclasses import replace

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.page import FLEET as UID
from dashboards.page import Row, of_servers, page, to_server, variables, window
from dashboards.panels import threshold_colours
from dashboards.panels.colours import coloured
from dashboards.panels.graphs import lines
from dashboards.panels.stats import figure
from dashboards.panels.tables import VERDICT_CALLED, VERDICT_COLOURS, Column, table, verdict_columns
from dashboards.signal import FLEET, TIMES
from dashboards.signals import fleet, verdict

NARROW = {"First limit": 100, "Headroom": 88, "Threads busy": 113, "Requests": 85}
"""Widths in pixels of columns beside the words of verdicts: on a screen of 1440 pixels, no column is cut off."""


def dashboard() -> Dashboard:
    """Builds the dashboard."""
    columns = {
        "First limit": Column(width=125, wraps=True),
        "Headroom": Column(TIMES, 1, threshold_colours.headroom(), width=90),
        fleet.UNTIL_WAIT: Column(TIMES, 1, width=145),
        "Threads busy": Column("percentunit", 0, threshold_colours.utilization(), 1.0, width=145),
        "Unevenness costs": Column("percentunit", 0, threshold_colours.costly(), width=145),
        "Queue wait": Column("s", width=95),
        "Response time": Column("s", width=115),
        "Requests": Column("reqps", 1, width=95),
    }
    called = {"limit": "First limit"}
    hidden = Column(hidden=True)
    return page(
        UID,
        "All servers and services by headroom: which one to look at first, and which limit comes first there.",
        [*variables("uwsgi_up", many=True), window()],
        of_servers(FLEET, 'severity="critical"'),
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
                        overrides=coloured({name: VERDICT_COLOURS[name] for name in verdict.RANKS}),
                    ),
                    figure(fleet.LEAST, 4, threshold_colours.headroom(), named=True, decimals=1, empty="-"),
                    figure(fleet.FIRING, 4, threshold_colours.any_is("red"), empty="none"),
                    figure(fleet.THREADS, 4, threshold_colours.utilization(), decimals=0),
                    figure(fleet.QUEUE_WAIT, 4, threshold_colours.none(), named=True),
                ],
            ),
            Row(
                "Which servers need something, and what?",
                [
                    table(
                        fleet.SERVERS,
                        (24, 12),
                        {
                            "server": Column(links=to_server(), width=110),
                            "instance": Column(width=120),
                            **verdict_columns(),
                            "limit": Column(),
                            "job": hidden,
                            "service": hidden,
                        },
                        {
                            **{name: replace(columns[name], width=width) for name, width in NARROW.items()},
                            "Users wait": Column("s", width=93),
                            "Rank": hidden,
                        },
                        called={**called, **VERDICT_CALLED},
                        tall=True,
                    ),
                ],
            ),
            Row(
                "How did it change?",
                [
                    lines(
                        fleet.HEADROOM, 12, logarithmic=True, beside=True, threshold=threshold_colours.headroom_low()
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
                            "p95": Column("s", width=80),
                            "Budget burns": Column(TIMES, 1, threshold_colours.burns(), width=110),
                            "Servers": Column(width=70),
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
