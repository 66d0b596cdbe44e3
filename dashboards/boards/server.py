"""Server: the dashboard to open when paged."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.page import SERVER, Panels, Row, every, page, variables, window
from dashboards.panels import threshold_colours
from dashboards.panels.colours import (
    BLUE,
    BROWN,
    GOLD,
    GREY,
    OLIVE,
    ORANGE,
    PINK,
    PURPLE,
    QUEUE,
    coloured,
    limits,
    named,
    wait_states,
)
from dashboards.panels.graphs import HEIGHT, by_worker, dashed, heat_map, lines, plain, shares
from dashboards.panels.stats import bars, figure
from dashboards.panels.tables import BEFORE_WATCH, VERDICT_CALLED, Column, table, verdict_columns
from dashboards.signal import ONE
from dashboards.signals import balance, users, verdict, waits
from dashboards.signals import limits as limit_signals

TOP = 5
"""Height of the panels about limits and alerts."""
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


def dashboard() -> Dashboard:
    """Builds the dashboard."""
    return page(
        SERVER,
        "One server: how much more it can take, which limit comes first, how even its workers are and what users get.",
        [*variables("uwsgi_up", many=False), window()],
        every(ONE),
        [Row("", _first_screen()), *_questions()],
    )


def _first_screen() -> Panels:
    """What is wrong and what to do; what users feel; where the time goes. As on the exporter's page."""
    threads = [plain("available", threshold_colours.PLAIN), dashed("configured", threshold_colours.PLAIN)]
    # Pale with an edge: on the exporter's page it is hatched, which tells it from the state of the next colour.
    pale = named(waits.QUEUED, ("custom.fillOpacity", 35), ("custom.lineWidth", 1))
    queued = [*coloured({waits.QUEUED: QUEUE, waits.IN_SERVICE: BLUE}), pale]
    return [
        table(
            verdict.VERDICT,
            (24, 4),
            verdict_columns(),
            {"Since": Column("dateTimeFromNow", words=BEFORE_WATCH, width=150)},
            called=VERDICT_CALLED,
            empty="not judged yet",
        ),
        figure(
            verdict.USERS_WAIT,
            6,
            threshold_colours.none(),
            named=True,
            overrides=[named("in the queue", ("thresholds", threshold_colours.queue_wait().build()))],
        ),
        figure(
            verdict.SERVED,
            4,
            threshold_colours.none(),
            named=True,
            decimals=1,
            overrides=[named("refused", ("thresholds", threshold_colours.refused().build()))],
        ),
        figure(
            users.NOW,
            6,
            threshold_colours.burns(),
            named=True,
            decimals=1,
            empty="-",
            overrides=[
                *(named(share, ("unit", "percentunit")) for share in ("good", "asked for")),
                *coloured(dict.fromkeys(("good", "asked for"), threshold_colours.PLAIN)),
            ],
        ),
        figure(
            verdict.QUEUE,
            4,
            threshold_colours.none(),
            named=True,
            empty="-",
            overrides=[
                named(
                    "full",
                    ("unit", "percentunit"),
                    ("decimals", 0),
                    ("thresholds", threshold_colours.ever_full().build()),
                )
            ],
        ),
        figure(
            limit_signals.HEADROOM,
            4,
            threshold_colours.headroom(),
            named=True,
            decimals=1,
            empty="-",
            # No colour of a verdict: at 1x and without a request that waits, nothing is wrong.
            overrides=coloured({limit_signals.UNTIL_WAIT: "text"}),
        ),
        lines(waits.LOAD, 24, stacked=True, overrides=[*wait_states(), *queued, *threads], height=10),
    ]


def _limits() -> Panels:
    severities = {name: (name, colour) for name, colour in SEVERITIES.items()}
    return [
        bars(limit_signals.LIMITS, (12, TOP), threshold_colours.utilization(), most=1, decimals=0, called="limit"),
        table(
            limit_signals.ALERTS,
            (12, TOP),
            {
                "alertname": Column(),
                "code": Column(),
                "severity": Column(words=severities, width=90),
                "alertstate": Column(width=90),
            },
            {"Alert": Column(hidden=True)},
            called={"alertname": "Alert of", "alertstate": "state"},
            empty="no alerts",
        ),
        figure(limit_signals.UTILIZATION, 6, threshold_colours.utilization(), decimals=0),
        figure(balance.COST_NOW, 6, threshold_colours.costly(), decimals=0),
        figure(balance.OTHERS, 6, threshold_colours.none(), decimals=0),
        figure(balance.ROOM, 6, threshold_colours.at_least_one()),
    ]


def _questions() -> Sequence[Row]:
    capacity = [
        named("available", ("custom.fillOpacity", 0), ("custom.lineWidth", 2)),
        dashed("configured", threshold_colours.PLAIN),
    ]
    load = coloured({"observed": BLUE, "by Little's law": PURPLE, "available": threshold_colours.PLAIN})
    unevenness = [*coloured({"hot worker": BLUE}), dashed("noise floor", GREY)]
    times = coloured({"in service": BLUE, "in the listen queue": QUEUE})
    errors = coloured({"exceptions": ORANGE, "harakiri": "red", "respawns": PURPLE})
    states = [*coloured(STATES), dashed("without application", "red")]
    cpu = coloured({"user": BLUE, "system": PURPLE, "others": GREY})
    return [
        Row(
            "How full is it, and which limit comes first?",
            [
                *_limits(),
                lines(limit_signals.CONCURRENCY, 9, overrides=[*capacity, *load]),
                heat_map(limit_signals.OCCUPANCY, 8),
                lines(
                    limit_signals.HEADROOM_OVER_TIME,
                    7,
                    logarithmic=True,
                    overrides=[*limits(), dashed(limit_signals.UNTIL_WAIT, GREY)],
                    threshold=threshold_colours.headroom_low(),
                ),
            ],
            folded=True,
        ),
        Row(
            "Where does the time go?",
            [
                lines(users.WHERE_TIME_GOES, 8, stacked=True, overrides=times),
                lines(waits.PER_REQUEST, 8, stacked=True, overrides=wait_states()),
                lines(waits.ROUTES, 8, stacked=True),
            ],
            folded=True,
        ),
        Row("How long do requests take, and do they keep the objective?", _objective(), folded=True),
        Row(
            "Do the workers share the load evenly, and does it cost anything?",
            [
                by_worker(balance.SHARES, 8, stacked=True, most=1),
                shares(balance.SHARES_NOW, 6),
                lines(balance.UNEVENNESS, 5, at_least=2, overrides=unevenness, threshold=threshold_colours.uneven()),
                lines(
                    balance.COST,
                    5,
                    at_least=0.5,
                    overrides=coloured({"of the response time": BLUE}),
                    threshold=threshold_colours.costly_line(),
                ),
                by_worker(balance.RESPONSE_TIMES, 12, step="1m"),
                by_worker(balance.BUSY_THREADS, 12),
                by_worker(balance.INTERPRETERS, 12, at_least=1, threshold=threshold_colours.interpreter_full()),
                by_worker(waits.INTERPRETER_LOCK, 12, at_least=1),
            ],
            folded=True,
        ),
        Row(
            "What do users get?",
            [
                lines(users.REQUESTS, 12, overrides=coloured({"requests": BLUE, "of them static files": GREY})),
                lines(users.ERRORS, 12, at_least=1, overrides=errors),
                lines(users.QUEUE, 8, at_least=1),
                lines(users.QUEUE_FULL, 8, most=1),
                lines(users.REFUSED, 8, at_least=1, overrides=coloured({"overflows": ORANGE, "drops": PURPLE})),
            ],
            folded=True,
        ),
        Row(
            "Are the processes healthy?",
            [
                by_worker(balance.MEMORY, 8),
                lines(balance.STATES, 8, stacked=True, overrides=states),
                lines(balance.CPU, 8, stacked=True, overrides=[*cpu, dashed("usable", threshold_colours.PLAIN)]),
                by_worker(balance.OLDEST, 8),
                by_worker(balance.FILES, 8),
                lines(balance.SAMPLING, 8, at_least=0.02, overrides=coloured({"gaps": ORANGE, "reading uWSGI": BLUE})),
            ],
            folded=True,
        ),
    ]


def _objective() -> Panels:
    threshold = dashed("threshold", "red")
    waited = coloured({"p50": OLIVE, "p95": BLUE, "p99": PURPLE, "mean": GREY, "oldest": ORANGE})
    percentiles = coloured({"p50": OLIVE, "p90": GOLD, "p95": BLUE, "p99": PURPLE, "mean": GREY})
    return [
        lines(users.PERCENTILES, 12, overrides=[*percentiles, threshold]),
        heat_map(users.HISTOGRAM, 12),
        lines(
            users.GOOD,
            6,
            most=1,
            from_zero=False,
            overrides=[*coloured({"good": BLUE}), dashed("objective", "red")],
        ),
        lines(
            users.burn(),
            8,
            at_least=2,
            overrides=coloured({"5m": GREY, "1h": BLUE, "6h": PURPLE}),
            threshold=threshold_colours.burning(),
        ),
        figure(
            users.BUDGET,
            4,
            threshold_colours.budget(),
            named=True,
            decimals=1,
            empty="-",
            overrides=[named(users.LASTS, ("unit", "s"), ("decimals", 0)), *coloured({users.LASTS: "text"})],
            height=HEIGHT,
        ),
        lines(
            users.WAIT,
            6,
            at_least=0.1,
            overrides=[*waited, threshold],
        ),
    ]
