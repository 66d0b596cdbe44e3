"""Colours that mean the same in every panel, with the words and colours of what threads wait for."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue, MatcherConfig

from uwsgi_headroom.words.colours import BACKENDS
from uwsgi_headroom.words.states import COLOURS, LIMITS, WAITS

BLUE, ORANGE, PURPLE, TEAL, GOLD = "#5794F2", "#E8770C", "#B877D9", "#2BA59B", "#AD8E00"
PINK, SKY, BROWN, OLIVE, GREY = "#E0699E", "#1E9FD0", "#A0785A", "#849F36", "#9A9FA8"
"""Each is legible on Grafana's dark and white backgrounds. None is the red or green of a verdict."""

QUEUE = COLOURS["hot"].light
"""Requests that no thread has taken yet, as on the exporter's page."""

WORKERS = (BLUE, ORANGE, PURPLE, TEAL, GOLD, PINK, SKY, BROWN, OLIVE, GREY)
"""By the last digit of the worker's number, from 1."""

CPUS = (SKY, GOLD, PINK, OLIVE, BROWN, TEAL, GREY, PURPLE, ORANGE, BLUE)
"""By the last digit of the CPU's number, from 0; in another order than the colours of workers, shown beside them."""

Override = tuple[MatcherConfig, list[DynamicConfigValue]]


def workers() -> list[Override]:
    """`worker N` has the colour of its last digit."""
    return [
        (MatcherConfig("byRegexp", f"/^worker \\d*{number % 10}$/"), [DynamicConfigValue(*_fixed(colour))])
        for number, colour in enumerate(WORKERS, start=1)
    ]


def cpus() -> list[Override]:
    """`CPU N` has the colour of its last digit."""
    return [
        (MatcherConfig("byRegexp", f"/^CPU \\d*{number}$/"), [DynamicConfigValue(*_fixed(colour))])
        for number, colour in enumerate(CPUS)
    ]


def limits() -> list[Override]:
    """The colour of each limit, as on the exporter's page."""
    return coloured({limit.name: COLOURS[limit.colour].light for limit in LIMITS.values()})


def coloured(colours: Mapping[str, str]) -> list[Override]:
    """Fixed colours for series, by name."""
    return [named(name, _fixed(colour)) for name, colour in colours.items()]


def named(name: str, *values: tuple[str, object]) -> Override:
    """Settings for the series or column of this name."""
    return MatcherConfig("byName", name), [DynamicConfigValue(key, value) for key, value in values]


def _fixed(colour: str) -> tuple[str, object]:
    return "color", {"mode": "fixed", "fixedColor": colour}


def wait_states() -> list[Override]:
    """Words and colours of all states, and colours of named backends: by the first letter of their name, because a
    dashboard does not know their places."""
    letters = [chr(ord("a") + place) for place in range(26)]
    shades = [
        (
            MatcherConfig("byRegexp", f"/^waits for [{''.join(letters[place :: len(BACKENDS)])}]/i"),
            [_colour(colour.light)],
        )
        for place, colour in enumerate(BACKENDS)
    ]
    other = MatcherConfig("byRegexp", "/^waits for [^a-z]/i"), [_colour(BACKENDS[0].light)]
    states = [
        named(code, ("displayName", state.name), ("color", {"mode": "fixed", "fixedColor": state.colour.light}))
        for code, state in WAITS.items()
    ]
    return [*shades, other, *states]


def _colour(colour: str) -> DynamicConfigValue:
    return DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})
