"""Draws results of experiments as SVG files, on a transparent ground: readable on light and dark pages.

Equal input gives equal bytes with one version of matplotlib. It is imported when a chart is drawn, because only the
extra `tune` has it: every function raises `HeadroomError` if it is missing, and OSError if the file cannot be written.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uwsgi_headroom import extras
from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.tune.experiment.results import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY = "#7a7a7a"
"""Text and axes: a contrast of 4.3 to white and of 4.9 to black (WCAG 2.1)."""

BLUE = "#3a86c8"

WIDTH = 7.1
"""Of a chart, in inches, as are the heights."""

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


def draw_bars(path: Path, *, title: str, unit: str, rows: Mapping[str, Spread]) -> None:
    """Draw a horizontal bar for each row: the median, with a line from the lowest to the highest value."""
    with open_chart(path, title, 0.9 + 0.35 * max(1, len(rows))) as axes:
        draw_medians(axes, list(rows.values()))
        label_rows(axes, list(rows), unit)


def draw_medians(axes: Axes, spreads: Sequence[Spread], shift: float = 0.0) -> None:
    """Draw a bar with its range for each row. shift: from the middle of the row, in rows."""
    places = [row + shift for row in range(len(spreads))]
    axes.barh(places, [values.median for values in spreads], 0.4, color=BLUE, label="measured")
    for place, values in zip(places, spreads, strict=True):
        axes.plot([values.low, values.high], [place, place], color=GREY, linewidth=1.5, marker="|")


def label_rows(axes: Axes, names: Sequence[str], unit: str) -> None:
    """Name the rows, from the top on, and the horizontal axis."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel(unit)


@contextlib.contextmanager
def open_chart(path: Path, title: str, height: float) -> Iterator[Axes]:
    """Yield empty axes to draw on, and write the chart when the block ends without an error."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  an extra
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise HeadroomError(f"charts need {extras.describe_missing(['matplotlib'])} ({error})") from error
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a glyph that the measuring font lacks: the reader's fonts may have it
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title)
        yield axes
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
