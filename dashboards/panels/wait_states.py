"""The words and colours of what threads wait for, the same as on the exporter's page."""

from __future__ import annotations

from collections.abc import Mapping

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue, MatcherConfig

from dashboards.panels.colours import Override, named
from uwsgi_headroom.record.waits import State

STATES: Mapping[State, tuple[str, str]] = {
    "cpu": ("on CPU", "#2e9e5b"),
    "cpu_wait": ("waits for a CPU", "#e0a100"),
    "interpreter_lock": ("waits for the interpreter lock", "#d9363e"),
    "backend": ("waits for a backend", "#3b73d9"),
    "client": ("waits for the client", "#17a2b8"),
    "dns": ("waits for DNS", "#2ba59a"),
    "disk": ("waits for a disk", "#8d6e63"),
    "lock": ("waits for a lock", "#b5489d"),
    "sleep": ("sleeps", "#9aa0a6"),
    "child": ("waits for a child process", "#6d7f3b"),
    "pipe": ("waits for a pipe", "#5c6bc0"),
    "other": ("other", "#78909c"),
    "unknown": ("unknown", "#cfd4da"),
}
"""Words and colour of each state, from the bottom of a stack."""

BACKENDS = ("#b49bff", "#4a63d3", "#8ab4f8", "#7c4fe0", "#5a3fa8", "#6aa8f5")
"""Blue and violet, of backends with names, by the first letter: that of a and g, of b and h, and so on."""


def wait_states() -> list[Override]:
    """Words and colours of all states, and colours of named backends."""
    letters = [chr(ord("a") + place) for place in range(26)]
    shades = [
        (
            MatcherConfig("byRegexp", f"/^waits for [{''.join(letters[place :: len(BACKENDS)])}]/i"),
            [_colour(colour)],
        )
        for place, colour in enumerate(BACKENDS)
    ]
    other = MatcherConfig("byRegexp", "/^waits for [^a-z]/i"), [_colour(BACKENDS[0])]
    states = [
        named(state, ("displayName", words), ("color", {"mode": "fixed", "fixedColor": colour}))
        for state, (words, colour) in STATES.items()
    ]
    return [*shades, other, *states]


def _colour(colour: str) -> DynamicConfigValue:
    return DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})
