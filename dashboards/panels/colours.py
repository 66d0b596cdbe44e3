"""Colours that stay with what they stand for, from panel to panel."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue, MatcherConfig

WORKERS = (
    "#5794F2",
    "#FF9830",
    "#B877D9",
    "#56C7BE",
    "#F2CC0C",
    "#E0699E",
    "#8AB8FF",
    "#A0785A",
    "#96D98D",
    "#C7CBD1",
)
"""By the last digit of the worker's number, from 1. None is the red or green of a verdict."""

BLUE, ORANGE, PURPLE, GREY = "#5794F2", "#FF9830", "#B877D9", "#8E8E8E"

LIMITS = {
    "hottest interpreter": "#FF9830",
    "interpreters": "#F2CC0C",
    "threads": "#5794F2",
    "cpu": "#B877D9",
}

Override = tuple[MatcherConfig, list[DynamicConfigValue]]


def workers() -> list[Override]:
    """`worker N` has the colour of its last digit."""
    return [
        (MatcherConfig("byRegexp", f"/^worker \\d*{number % 10}$/"), [DynamicConfigValue(*_fixed(colour))])
        for number, colour in enumerate(WORKERS, start=1)
    ]


def limits() -> list[Override]:
    """Each limit has its colour."""
    return coloured(LIMITS)


def coloured(colours: Mapping[str, str]) -> list[Override]:
    """Series by their names."""
    return [named(name, _fixed(colour)) for name, colour in colours.items()]


def named(name: str, *values: tuple[str, object]) -> Override:
    """Settings of the series or column of this name."""
    return MatcherConfig("byName", name), [DynamicConfigValue(key, value) for key, value in values]


def _fixed(colour: str) -> tuple[str, object]:
    return "color", {"mode": "fixed", "fixedColor": colour}
