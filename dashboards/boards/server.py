"""Server: the dashboard to open when paged."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from alerts.thresholds import Thresholds
from dashboards import annotation_queries, links
from dashboards.page import Panels, Row, page
from dashboards.panels import threshold_colours
from dashboards.panels.colours import BLUE, BROWN, GOLD, GREY, OLIVE, ORANGE, PINK, PURPLE, coloured, limits, named
from dashboards.panels.graphs import HEIGHT, by_worker, dashed, heat_map, lines, plain, shares
from dashboards.panels.stats import bars, figure
from dashboards.panels.tables import Column, table
from dashboards.panels.wait_states import wait_states
from dashboards.selector import ONE
from dashboards.signals import affinity, balance, objective, processes, routes, users, waits
from dashboards.signals import limits as limit_signals
from dashboards.variables import variables, window

TOP = 5
"""Height of the first row: four limits, three alerts."""
SEVERITIES = {"critical": "red", "warning": "orange", "info": "blue"}
STATES = {
    "idle": OLIVE,
    "busy": BLUE,
    "starting": GOLD,
    "gone": ORANGE,
    "pause": PURPLE,
    "signal": PINK,
    "cheap": GREY,
    "never_spawned": BROWN,
}


def dashboard(t: Thresholds) -> Dashboard:
    """Builds the dashboard."""
    return page(
        links.SERVER,
        "One server: how much more it can take, which limit comes first, how even its workers are and what users get.",
        [*variables("uwsgi_up", many=False), window()],
        annotation_queries.every(ONE),
        [Row("", _verdict(t)), *_questions(t)],
    )


def _verdict(t: Thresholds) -> Panels:
    severities = {name: (name, colour) for name, colour in SEVERITIES.items()}
    return [
        figure(
            limit_signals.HEADROOM,
            5,
            threshold_colours.headroom(t),
            named=True,
            decimals=1,
            empty="-",
            # No colour of a verdict: at 1x and without a request that waits, nothing is wrong.
            overrides=coloured({limit_signals.UNTIL_WAIT: "text"}),
            height=TOP,
        ),
        bars(limit_signals.LIMITS, (9, TOP), threshold_colours.utilization(t), most=1, decimals=0, called="limit"),
        table(
            limit_signals.ALERTS,
            (10, TOP),
            {
                "alertname": Column(),
                "severity": Column(words=severities, width=90),
                "alertstate": Column(width=90),
            },
            {"Alert": Column(hidden=True)},
            called={"alertname": "Alert of", "alertstate": "state"},
            empty="no alerts",
        ),
        figure(limit_signals.UTILIZATION, 4, threshold_colours.utilization(t), decimals=0),
        figure(users.RESPONSE_TIME_NOW, 4, threshold_colours.none(), decimals=0),
        figure(users.QUEUE_WAIT_NOW, 4, threshold_colours.none(), decimals=0),
        figure(balance.COST_NOW, 4, threshold_colours.costly(), decimals=0),
        figure(affinity.OTHERS, 4, threshold_colours.none(), decimals=0),
        figure(processes.ROOM, 4, threshold_colours.at_least_one()),
    ]


def _questions(t: Thresholds) -> Sequence[Row]:
    capacity = [named("available", ("custom.fillOpacity", 0), ("custom.lineWidth", 2)), dashed("configured", "red")]
    threads = [plain("available", ORANGE), dashed("configured", "red")]
    load = coloured({"observed": BLUE, "by Little's law": PURPLE, "available": ORANGE})
    unevenness = [*coloured({"hot worker": BLUE}), dashed("noise floor", GREY)]
    times = coloured({"in service": BLUE, "in the listen queue": ORANGE})
    errors = coloured({"exceptions": ORANGE, "harakiri": "red", "respawns": PURPLE})
    states = [*coloured(STATES), dashed("without application", "red")]
    cpu = coloured({"user": BLUE, "system": PURPLE, "others": GREY})
    return [
        Row(
            "How full is it?",
            [
                lines(limit_signals.CONCURRENCY, 9, overrides=[*capacity, *load]),
                heat_map(limit_signals.OCCUPANCY, 8),
                lines(
                    limit_signals.HEADROOM_OVER_TIME,
                    7,
                    logarithmic=True,
                    overrides=[*limits(), dashed(limit_signals.UNTIL_WAIT, GREY)],
                    threshold=threshold_colours.headroom_low(t),
                ),
                lines(waits.LOAD, 8, stacked=True, overrides=[*wait_states(), *threads]),
                lines(waits.PER_REQUEST, 8, stacked=True, overrides=wait_states()),
                lines(routes.THREADS, 8, stacked=True),
            ],
        ),
        Row("How long do requests take, and do they keep the objective?", _objective(t)),
        Row(
            "Do the workers share the load evenly, and does it cost anything?",
            [
                by_worker(balance.SHARES, 8, stacked=True, most=1),
                shares(balance.SHARES_NOW, 6),
                lines(balance.UNEVENNESS, 5, at_least=2, overrides=unevenness, threshold=threshold_colours.uneven(t)),
                lines(
                    balance.COST,
                    5,
                    at_least=0.5,
                    overrides=coloured({"of the response time": BLUE}),
                    threshold=threshold_colours.costly_line(),
                ),
                by_worker(balance.RESPONSE_TIMES, 12, step="1m"),
                by_worker(balance.BUSY_THREADS, 12),
                by_worker(balance.INTERPRETERS, 12, at_least=1, threshold=threshold_colours.interpreter_full(t)),
                by_worker(waits.INTERPRETER_LOCK, 12),
            ],
        ),
        Row(
            "What do users get?",
            [
                lines(users.REQUESTS, 6, overrides=coloured({"requests": BLUE, "of them static files": GREY})),
                lines(users.WHERE_TIME_GOES, 9, stacked=True, overrides=times),
                lines(users.ERRORS, 9, overrides=errors),
                lines(users.QUEUE, 8),
                lines(users.QUEUE_FULL, 8, most=1),
                lines(users.REFUSED, 8, overrides=coloured({"overflows": ORANGE, "drops": PURPLE})),
            ],
        ),
        Row(
            "Are the processes healthy?",
            [
                by_worker(processes.MEMORY, 8),
                lines(processes.STATES, 8, stacked=True, overrides=states),
                lines(processes.CPU, 8, stacked=True, overrides=[*cpu, dashed("usable", "red")]),
                by_worker(processes.OLDEST, 8),
                by_worker(processes.FILES, 8),
                lines(
                    processes.SAMPLING, 8, at_least=0.02, overrides=coloured({"gaps": ORANGE, "reading uWSGI": BLUE})
                ),
            ],
        ),
    ]


def _objective(t: Thresholds) -> Panels:
    threshold = dashed("threshold", "red")
    percentiles = coloured({"p50": OLIVE, "p90": GOLD, "p95": BLUE, "p99": PURPLE, "mean": GREY})
    return [
        lines(objective.PERCENTILES, 12, overrides=[*percentiles, threshold]),
        heat_map(objective.HISTOGRAM, 12),
        lines(
            objective.GOOD,
            7,
            most=1,
            from_zero=False,
            overrides=[*coloured({"good": BLUE}), dashed("objective", "red")],
        ),
        lines(
            objective.burn(t),
            7,
            at_least=2,
            overrides=coloured({"5m": GREY, "1h": BLUE, "6h": PURPLE}),
            threshold=threshold_colours.burning(t),
        ),
        lines(objective.WAIT, 6, overrides=[*coloured({"wait": ORANGE}), threshold]),
        figure(objective.BUDGET, 4, threshold_colours.budget(), decimals=0, empty="-", height=HEIGHT),
    ]
