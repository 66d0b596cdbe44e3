"""Draws charts of the lab, in the style of those of `tune`: bars beside published values, and lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from uwsgi_headroom.tune.experiment.results import BLUE, GREY, Spread, draw_medians, label_rows, open_chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
