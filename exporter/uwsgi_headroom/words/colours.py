"""The palette of all faces: one accent and colours that colour-blind readers can tell apart (Okabe and Ito 2008).

No information is given by colour alone. Text has a contrast of 4.5 to 1 to its ground, graphics 3 to 1 (WCAG 2.2,
1.4.3 and 1.4.11). A light colour of a line or an area also has 3 to 1 on Grafana's dark ground, because a dashboard has
only one colour for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Colour(NamedTuple):
    """A colour as `#rrggbb`, on light and on dark grounds."""

    light: str
    dark: str


PALETTE: Mapping[str, Colour] = {
    "bg": Colour("#f4f5f7", "#0e1216"),
    "panel": Colour("#ffffff", "#161b21"),
    "ink": Colour("#14181d", "#e7ebef"),
    "dim": Colour("#59646f", "#98a4b0"),
    "line": Colour("#dde2e8", "#29313a"),
    "off": Colour("#86919d", "#5f6b78"),
    "accent": Colour("#0072b2", "#56b4e9"),
    "hot": Colour("#d55e00", "#ff8f3d"),
    "band": Colour("#e4e8ed", "#232a32"),
    "cell-low": Colour("#e3ecf4", "#1d2732"),
    "cell-high": Colour("#00456b", "#8fd0f5"),
    "blue": Colour("#0072b2", "#56b4e9"),
    "orange": Colour("#c98500", "#e69f00"),
    "green": Colour("#008862", "#2fbf95"),
    "purple": Colour("#b3588a", "#dd97bd"),
    "sky": Colour("#3798d0", "#9cd6f7"),
    "vermillion": Colour("#d55e00", "#ff8f3d"),
    "ok": Colour("#00704f", "#3ecf9f"),
    "warning": Colour("#8f5d00", "#f0b13a"),
    "critical": Colour("#b84a00", "#ff9a55"),
    "unknown": Colour("#59646f", "#98a4b0"),
    "alarm": Colour("#b03a00", "#ff8f3d"),
    "on-alarm": Colour("#ffffff", "#14181d"),
}
"""By the name of the page's variable."""

REPORT_BAND = Colour("#d6e4ee", "#22405a")
"""A band in a chart of the report is stronger than one on the page, where it lies behind a table's row, too."""

BACKENDS = (
    Colour("#7157d0", "#9584f0"),
    Colour("#4a93dd", "#9ccbff"),
    Colour("#a04bb4", "#c87ade"),
    Colour("#8f86e3", "#cdc7ff"),
)
"""Blue and violet, in turn, of backends with names: neighbours differ, however many there are."""


def ink_on(colour: str) -> str:
    """Black or white, whichever has more contrast on a colour: at least 4.58 to 1, as 21 to 1 has its middle there."""
    return max("#000000", "#ffffff", key=lambda ink: contrast(ink, colour))


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 to 21 (WCAG 2.2)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    """The relative luminance of a colour (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
