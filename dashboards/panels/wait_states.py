"""The words and colours of what threads wait for, from the one table of all faces."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue, MatcherConfig

from dashboards.panels.colours import Override, named
from uwsgi_headroom.words.colours import BACKENDS
from uwsgi_headroom.words.states import WAITS


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
