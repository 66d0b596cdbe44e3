"""The colours of the page: text and lines have enough contrast, in light and dark mode (WCAG 2.2)."""

from __future__ import annotations

import re

import pytest

from uwsgi_headroom.record import STATES
from uwsgi_headroom.web import live_page
from uwsgi_headroom.words.colours import contrast

TEXT = [
    *(
        (ink, ground)
        for ink in ("ink", "dim", "accent", "warning", "critical", "ok", "unknown")
        for ground in ("panel", "bg")
    ),
    ("panel", "accent"),
    ("panel", "unknown"),
    ("panel", "warning"),
    ("panel", "critical"),
    ("panel", "ok"),
    ("on-alarm", "alarm"),
    ("alarm", "on-alarm"),
    ("bg", "ink"),
]
LINES = [
    (line, "panel")
    for line in ("blue", "orange", "green", "purple", "sky", "vermillion", "hot", "accent", "off", "cell-high")
]
AREAS = [(f"wait-{part.replace('_', '-')}", "panel") for part in (*STATES, *(f"named-{number}" for number in range(4)))]
LABELS = [(f"on-{part}", part) for part, _ in AREAS]
"""Text on the parts of the time bar."""


def palettes() -> dict[str, dict[str, str]]:
    """The colour variables of the style sheet, by theme."""
    light, dark = re.findall(r":root \{(.*?)\}", (live_page.FOLDER / "page.css").read_text(), re.DOTALL)[:2]
    colours = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in (light, dark)]
    return {"light": colours[0], "dark": colours[1]}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXT, 4.5), (LABELS, 4.5), (LINES, 3.0), (AREAS, 3.0)])
def test_contrast(theme: str, pairs: list[tuple[str, str]], least: float) -> None:
    """Text has a contrast of 4.5 to 1 (1.4.3), graphics 3 to 1 (1.4.11)."""
    colours = palettes()[theme]
    poor = {
        pair: round(contrast(*(colours[name] for name in pair)), 2)
        for pair in pairs
        if contrast(*(colours[name] for name in pair)) < least
    }
    assert poor == {}
