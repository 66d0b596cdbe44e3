"""Affinity: where the workers may run, and where they do."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from alerts.thresholds import Thresholds
from dashboards import annotation_queries, links
from dashboards.page import Row, page
from dashboards.panels import threshold_colours
from dashboards.panels.graphs import by_worker, lines, states
from dashboards.panels.stats import figure
from dashboards.panels.tables import Column, matrix, table
from dashboards.selector import ONE
from dashboards.signals import affinity, balance
from dashboards.variables import variables


def dashboard(t: Thresholds) -> Dashboard:
    """The dashboard."""
    whole, rate = Column(width=110), Column("cps", 1, width=150)
    return page(
        links.AFFINITY,
        "One server: which CPUs its workers may use, which they do, and whether they are in each other's way.",
        variables("uwsgi_up", many=False),
        [annotation_queries.alerts(ONE), annotation_queries.spawns(ONE)],
        [
            Row(
                "",
                [
                    figure(affinity.USABLE, 6, threshold_colours.none()),
                    figure(affinity.USED, 6, threshold_colours.cpu(t), decimals=0),
                    figure(affinity.PINNED, 6, threshold_colours.none()),
                    figure(affinity.SHARING, 6, threshold_colours.any_is("red")),
                ],
            ),
            Row(
                "Where may they run, and where do they?",
                [
                    table(
                        affinity.WORKERS,
                        (14, 10),
                        {"worker_id": Column()},
                        {
                            "worker": Column(width=90),
                            "CPUs allowed": whole,
                            "Last CPU": whole,
                            "Moves seen": whole,
                            "CPU": Column("percentunit", 0, threshold_colours.interpreter(t), 1.0),
                            "Voluntary switches": rate,
                            "Involuntary switches": rate,
                        },
                        called={"worker_id": "worker"},
                        numbered="worker_id",
                    ),
                    matrix(affinity.RESIDENCY, (10, 10), rows="worker_id", columns="cpu", most=1),
                    states(affinity.LAST_CPU, 12),
                    lines(affinity.CPUS, 12, at_least=1),
                ],
            ),
            Row(
                "Are they put off?",
                [
                    by_worker(affinity.SWITCHES, 8),
                    by_worker(affinity.WAITS, 8),
                    by_worker(balance.INTERPRETERS, 8, at_least=1, threshold=threshold_colours.interpreter_full(t)),
                ],
            ),
        ],
    )
