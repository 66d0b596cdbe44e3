"""Draws the results of experiments as SVG files, on a transparent ground: readable on light and dark pages.

Equal input gives equal bytes with one version of matplotlib, which is imported when a chart is drawn (extra `tune`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.tune.experiment.results import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY = "#7a7a7a"
"""Text and axes: a contrast of 4.3 to white and of 4.9 to black (WCAG 2.1)."""

BLUE, ORANGE = "#3a86c8", "#d98100"
_COLOURS = (BLUE, ORANGE, "#1f9e77", "#cc6699", "#8c7ae6", "#a08040", "#d9534f", "#4db6ac")
_MARKERS = "osD^vPX*"

_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "uwsgi-headroom",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": GREY,
    "text.parse_math": False,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.frameon": False,
}

_WIDTH = 7.1


def draw_bars(
    path: Path,
    *,
    title: str,
    unit: str,
    rows: Mapping[str, Spread],
    beside: Mapping[str, float] | None = None,
) -> None:
    """Draw a bar for each row: the median, with a line from the lowest to the highest value.

    beside: published values of some rows, as thin bars below ours. Their scale is the same, so pass values that can be
    compared. Raises OSError, `HeadroomError` if matplotlib is missing.
    """
    published = beside or {}

    def paint(axes: Axes) -> None:
        offset = 0.2 if published else 0.0
        for place, (name, values) in enumerate(rows.items()):
            axes.barh(place - offset, values.median, 0.4, color=BLUE, label="measured" if not place else None)
            axes.plot([values.low, values.high], [place - offset] * 2, color=GREY, linewidth=1.5, marker="|")
            if name in published:
                axes.barh(place + offset, published[name], 0.25, color=ORANGE, hatch="//", edgecolor=GREY, linewidth=0)
        if published:
            axes.barh([0], [0], color=ORANGE, hatch="//", edgecolor=GREY, linewidth=0, label="published")
            axes.figure.legend(loc="outside lower right", ncols=2, fontsize=8)  # inside, it would cover bars
        axes.set_yticks(range(len(rows)), list(rows))
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel(unit)

    _draw(path, title, 0.9 + (0.5 if published else 0.35) * max(1, len(rows)), paint)


def draw_lines(path: Path, *, title: str, x: str, y: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Draw a line for each name through its points (x, y). x, y: the names of the axes, with units.

    Raises OSError, `HeadroomError` if matplotlib is missing.
    """

    def paint(axes: Axes) -> None:
        for place, (name, points) in enumerate(lines.items()):
            axes.plot(
                [point[0] for point in points],
                [point[1] for point in points],
                color=_COLOURS[place % len(_COLOURS)],
                # Colour alone shall not distinguish lines.
                marker=_MARKERS[place % len(_MARKERS)],
                linestyle=("-", "--", ":")[place // len(_COLOURS) % 3],
                markersize=4,
                label=name,
            )
        if lines:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(x)
        axes.set_ylabel(y)

    _draw(path, title, 3.2, paint)


def _draw(path: Path, title: str, height: float, paint: Callable[[Axes], None]) -> None:
    try:
        import matplotlib as mpl  # noqa: PLC0415  an extra
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise HeadroomError(f"charts need matplotlib ({error}): pip install 'matplotlib>=3.8,<4'") from error
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that the measuring font lacks: the reader's fonts may have it
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title)
        paint(axes)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
