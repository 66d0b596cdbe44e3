"""The colours of the page: text and lines have enough contrast, in light and dark mode (WCAG 2.2)."""

from __future__ import annotations

import re

import pytest

from uwsgi_headroom.record.waits import STATES
from uwsgi_headroom.web import assets

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
LINES = [(line, "panel") for line in ("blue", "orange", "green", "purple", "vermillion", "hot", "accent")]
AREAS = [(f"wait-{part.replace('_', '-')}", "panel") for part in (*STATES, *(f"named-{number}" for number in range(4)))]


def palettes() -> dict[str, dict[str, str]]:
    """The colour variables of the style sheet, by theme."""
    light, dark = re.findall(r":root \{(.*?)\}", (assets.FOLDER / "page.css").read_text(), re.DOTALL)[:2]
    colours = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in (light, dark)]
    return {"light": colours[0], "dark": colours[1]}


def luminance(colour: str) -> float:
    """Relative luminance of a colour as #rrggbb."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_ratio_itself() -> None:
    """Black on white has 21, a colour on itself 1."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    assert contrast("#123456", "#123456") == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXT, 4.5), (LINES, 3.0), (AREAS, 3.0)])
def test_contrast(theme: str, pairs: list[tuple[str, str]], least: float) -> None:
    """Text has a contrast of 4.5 to 1 (1.4.3), graphics 3 to 1 (1.4.11)."""
    colours = palettes()[theme]
    poor = {
        pair: round(contrast(*(colours[name] for name in pair)), 2)
        for pair in pairs
        if contrast(*(colours[name] for name in pair)) < least
    }
    assert poor == {}
