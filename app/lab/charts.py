"""Draws charts of the lab: bars beside published values, and lines."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.lab.results import Spread
from uwsgi_headroom import extras
from uwsgi_headroom.errors import HeadroomError

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
    """Yield empty axes to draw on, and write the chart when the block ends without an error.

    Equal input gives equal bytes with one version of matplotlib. It is imported when a chart is drawn, because only the
    extra `tune` has it: every function raises `HeadroomError` if it is missing, and OSError if the file cannot be
    written.
    """
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


ORANGE = "#d98100"


def draw_bars(
    path: Path,
    *,
    title: str,
    unit: str,
    rows: Mapping[str, Spread],
    beside: Mapping[str, float] | None = None,
) -> None:
    """Draw a horizontal bar for each row: the median, with a line from the lowest to the highest value.

    beside: published values of some rows, as thin hatched bars below ours. Both have one scale: pass values that can be
    compared.
    """
    published = beside or {}
    height_of_row = 0.5 if published else 0.35
    with open_chart(path, title, 0.9 + height_of_row * max(1, len(rows))) as axes:
        draw_medians(axes, list(rows.values()), shift=-0.2 if published else 0.0)
        if published:
            _draw_published(axes, [published.get(name) for name in rows], shift=0.2)
            # Outside of the axes: inside, the legend would cover bars.
            axes.figure.legend(loc="outside lower right", ncols=2, fontsize=8)
        label_rows(axes, list(rows), unit)


def _draw_published(axes: Axes, values: Sequence[float | None], shift: float) -> None:
    """Draw a bar for each row whose value is known. shift: as for `draw_medians`."""
    known = {row + shift: value for row, value in enumerate(values) if value is not None}
    places, lengths = list(known), list(known.values())
    axes.barh(places, lengths, 0.25, color=ORANGE, hatch="//", edgecolor=GREY, linewidth=0, label="published")


_COLOURS = (BLUE, ORANGE, "#1f9e77", "#cc6699", "#8c7ae6", "#a08040", "#d9534f", "#4db6ac")
_MARKERS = "osD^vPX*"
_DASHES = ("-", "--", ":")


def draw_lines(path: Path, *, title: str, x: str, y: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Draw a line for each name through its points (x, y). x, y: the names of the axes, with units."""
    with open_chart(path, title, 3.2) as axes:
        for place, (name, points) in enumerate(lines.items()):
            axes.plot(
                [horizontal for horizontal, _ in points],
                [vertical for _, vertical in points],
                label=name,
                color=_COLOURS[place % len(_COLOURS)],
                # Readers who cannot tell colours apart tell lines apart by markers and dashes.
                marker=_MARKERS[place % len(_MARKERS)],
                linestyle=_DASHES[place // len(_COLOURS) % len(_DASHES)],
                markersize=4,
            )
        if lines:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
