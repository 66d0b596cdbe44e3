"""Draws charts in one style: the colours of the live page, text as text, and SVG that follows the page's colours.

The palette is that of Okabe and Ito (2008), which colour-blind readers can tell apart; no information is given by
colour alone.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from uwsgi_headroom.words.colours import PALETTE, REPORT_BAND

_NAMES = ("ink", "dim", "line", "panel", "blue", "orange", "green", "vermillion", "purple")
INK, DIM, LINE, PANEL, BLUE, ORANGE, GREEN, VERMILLION, PURPLE = (PALETTE[name].light for name in _NAMES)
BAND = REPORT_BAND.light

_VARIABLES = {PALETTE[name].light: f"--{name}" for name in _NAMES} | {BAND: "--band"}
"""Colours that the page may replace, for readers with a dark screen."""

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,
    "axes.labelcolor": DIM,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "xtick.color": DIM,
    "ytick.color": DIM,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.frameon": False,
}

WIDTH = 7.1
"""Inches: the text width of an A4 page."""


def draw(height: float, paint: Callable[[Figure], None], width: float = WIDTH) -> str:
    """An SVG element of a chart. height, width: inches. paint: draws on an empty figure."""
    settings: Any = {**_SETTINGS, "svg.hashsalt": f"{paint.__module__}.{height}"}
    with mpl.rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that the measuring font lacks: the reader's fonts may have it
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure)
        output = io.StringIO()
        figure.savefig(output, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _for_page(output.getvalue())


def label(axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], **options: Any) -> None:
    """Write beside what is named, instead of into a legend. at: in data, unless `xycoords` says otherwise; offset:
    points."""
    axes.annotate(text, at, xytext=offset, textcoords="offset points", **options)


MOST_LETTERS = 32
"""The longest name beside a chart: more would take its room."""


def shorten(name: str) -> str:
    """A name for a chart: of a long one, the beginning and the end, which tell the servers of a service apart."""
    if len(name) <= MOST_LETTERS:
        return name
    kept = (MOST_LETTERS - 1) // 2
    return f"{name[:kept]}…{name[-kept:]}"


def _for_page(svg: str) -> str:
    """The element alone, with the colours of the page and its fonts, and without ids that other charts have, too."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'<g id="[^"]*">', "<g>", element)
    for colour, variable in _VARIABLES.items():
        element = element.replace(colour, f"var({variable}, {colour})")
    element = element.replace("'DejaVu Sans', sans-serif", "inherit").replace("'DejaVu Sans'", "inherit")
    head, rest = element.split(">", 1)
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    return re.sub(r"\n\s*", "\n", f'{head} class="chart">{rest}').strip()
