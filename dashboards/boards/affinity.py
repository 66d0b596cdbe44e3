"""Affinity: where workers may run, and where they do run."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard, FieldColorModeId

from dashboards.page import AFFINITY, Row, of_workers, page, variables
from dashboards.panels import threshold_colours
from dashboards.panels.colours import cpus
from dashboards.panels.graphs import by_worker, last_cpus, lines
from dashboards.panels.stats import figure
from dashboards.panels.tables import Column, matrix, table
from dashboards.signal import ONE, PER_SECOND
from dashboards.signals import balance

TALL = 8
"""Height of the tables: shows six workers; scroll for the others."""


def dashboard() -> Dashboard:
    """Builds the dashboard."""
    whole, rate = Column(width=115), Column(PER_SECOND, 1, width=165)
    return page(
        AFFINITY,
        "One server: which CPUs its workers may use, which they use, and whether they get in each other's way.",
        variables("uwsgi_up", many=False),
        of_workers(ONE),
        [
            Row(
                "",
                [
                    figure(balance.USABLE, 4, threshold_colours.none()),
                    figure(balance.USED, 5, threshold_colours.cpu(), decimals=0),
                    figure(balance.OTHERS, 5, threshold_colours.none(), decimals=0),
                    figure(balance.PINNED, 5, threshold_colours.none()),
                    figure(balance.SHARING, 5, threshold_colours.any_is("red")),
                ],
            ),
            Row(
                "Where may the workers run, and where do they run?",
                [
                    table(
                        balance.WORKERS,
                        (16, TALL),
                        {"worker_id": Column()},
                        {
                            "Worker": Column(width=80),
                            "CPUs allowed": whole,
                            "Last CPU": whole,
                            "Moves seen": whole,
                            "CPU": Column("percentunit", 0, threshold_colours.interpreter(), 1.0),
                            "Voluntary switches": rate,
                            "Involuntary switches": rate,
                        },
                        called={"worker_id": "Worker"},
                        numbered="worker_id",
                    ),
                    matrix(
                        balance.RESIDENCY,
                        (8, TALL),
                        rows="worker_id",
                        columns="cpu",
                        corner="Worker",
                        colours=FieldColorModeId.CONTINUOUS_BLUES,
                        width=56,
                    ),
                    last_cpus(balance.LAST_CPU, 12),
                    lines(balance.CPUS, 12, at_least=1, overrides=cpus()),
                ],
            ),
            Row(
                "Are the workers preempted?",
                [
                    by_worker(balance.SWITCHES, 8),
                    by_worker(balance.WAITS, 8),
                    by_worker(balance.INTERPRETERS, 8, at_least=1, threshold=threshold_colours.interpreter_full()),
                ],
            ),
        ],
    )
