"""Capacity review: the last months and their trend."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import table as tables
from grafana_foundation_sdk.models.dashboard import Dashboard, FieldColorModeId

from dashboards.page import CAPACITY, Panels, Row, Times, alerts, configuration, page, to_server, utc_offset, variables
from dashboards.panels import threshold_colours
from dashboards.panels.colours import BLUE, GOLD, GREY, Override, named, wait_states
from dashboards.panels.graphs import lines, matching
from dashboards.panels.stats import bars, figure
from dashboards.panels.tables import Column, matrix, table
from dashboards.signal import FLEET, TIMES
from dashboards.signals import history

MONTHS = Times("now-90d", "")
_NEUTRAL = (("color", {"mode": "fixed", "fixedColor": GREY}), ("custom.fillOpacity", 0))
_DASHED = (("custom.lineStyle", {"fill": "dash", "dash": [8, 6]}), ("custom.lineWidth", 2), *_NEUTRAL)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def dashboard() -> Dashboard:
    """Builds the dashboard."""
    return page(
        CAPACITY,
        "Daily figures over months: how near to capacity the servers were, how often and when, and the trend. Needs "
        "the recording rules of this project, and a Prometheus with enough retention.",
        [*variables("server:uwsgi_utilization:max1d", many=True), utc_offset()],
        [alerts(FLEET, 'severity="critical"'), configuration(FLEET)],
        [
            Row(
                "",
                [
                    figure(history.HEADROOM, 7, threshold_colours.headroom(), named=True, decimals=2),
                    figure(history.USED, 4, threshold_colours.utilization(), decimals=0),
                    figure(history.USUAL, 5, threshold_colours.utilization(), decimals=0),
                    figure(history.GROWTH, 4, threshold_colours.none(), decimals=1),
                    figure(history.DAYS, 4, threshold_colours.none(), empty="no rules?"),
                ],
            ),
            Row("What is the trend?", _trend()),
            Row(
                "How often is a limit close, and when?",
                [
                    bars(history.days_by_headroom(), (8, 9), threshold_colours.none(), decimals=0, overrides=_bands()),
                    lines(
                        history.HEADROOMS, 16, logarithmic=True, threshold=threshold_colours.headroom_low(), step="1d"
                    ),
                    matrix(
                        history.week(),
                        (24, 9),
                        rows="weekday",
                        columns="hour",
                        corner="Weekday",
                        colours=FieldColorModeId.CONTINUOUS_BLUES,
                        width=46,
                        called={str(day): name for day, name in enumerate(WEEKDAYS)},
                    ),
                ],
            ),
            Row("Did requests keep their objective?", _objective()),
            Row(
                "What do requests spend their time on?",
                [
                    lines(history.WAIT_SHARES, 12, stacked=True, most=1, overrides=wait_states(), step="1d"),
                    lines(history.WAIT_THREADS, 12, stacked=True, overrides=wait_states(), step="1d"),
                ],
            ),
            Row("What should the meeting's minutes say?", [_minutes()]),
        ],
        MONTHS,
    )


def _trend() -> Panels:
    peaks = matching("/peak$/", ("custom.drawStyle", "points"), ("custom.showPoints", "always"), *_NEUTRAL)
    trends = matching("/trend$/", *_DASHED)
    near = threshold_colours.near_capacity()
    return [
        lines(history.DAILY, 12, overrides=[peaks], at_least=1, threshold=near, step="1d"),
        lines(history.trend(), 12, overrides=[trends], at_least=1, threshold=near, step="1d"),
    ]


def _objective() -> Panels:
    objectives = matching("/objective$/", *_DASHED)
    return [
        lines(history.GOOD, 12, most=1, from_zero=False, overrides=[objectives], step="1d"),
        lines(history.BUDGET, 12, most=1, from_zero=False, threshold=threshold_colours.spent(), step="1d"),
        lines(history.BURN, 12, at_least=2, threshold=threshold_colours.used_up(), step="1d"),
        lines(history.QUEUE_WAIT, 12, step="1d"),
    ]


def _bands() -> Sequence[Override]:
    names = [series.legend for series in history.days_by_headroom().series]
    colours = ("red", "orange", GOLD, "green", BLUE)
    return [
        named(name, ("color", {"mode": "fixed", "fixedColor": colour}))
        for name, colour in zip(names, colours, strict=True)
    ]


def _minutes() -> tables.Panel:
    busy = Column("percentunit", 0, threshold_colours.utilization(), 1.0, width=165)
    return table(
        history.minutes(),
        (24, 8),
        {
            "server": Column(links=to_server(now=True)),
            "instance": Column(),
            "limit": Column(),
            "job": Column(hidden=True),
            "service": Column(hidden=True),
        },
        {
            "First limit": Column(width=160),
            "Least headroom": Column(TIMES, 2, threshold_colours.headroom(), width=130),
            "Busiest day's p95": busy,
            "Peak": busy,
            "Most requests": Column("reqps", 1, width=130),
            "Growth in 30 days": Column("percentunit", 1, width=150),
            "Days": Column(width=80),
        },
        called={"limit": "First limit"},
    )
