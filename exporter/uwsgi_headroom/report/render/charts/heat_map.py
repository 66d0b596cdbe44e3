"""Draws a figure by weekday and hour."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from uwsgi_headroom.report.render.charts.style import DIM, INK, draw
from uwsgi_headroom.report.review.model import HeatMap

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_COLOURS = LinearSegmentedColormap.from_list("cells", ["#e3ecf4", "#7fb2d6", "#00456b"])


def draw_heat_map(found: HeatMap) -> str:
    """Darker is more; each cell has its number."""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        values = np.array([[np.nan if value is None else value for value in row] for row in found.rows])
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        axes.pcolormesh(
            np.arange(25),
            np.arange(8),
            np.ma.masked_invalid(values),
            cmap=_COLOURS,
            vmin=low,
            vmax=high,
            edgecolors="#ffffff",
            linewidth=0.6,
        )
        middle = (low + high) / 2
        for day, row in enumerate(values):
            for hour, value in enumerate(row):
                if np.isfinite(value):
                    colour = "#fefefe" if value > middle else "#101418"
                    axes.text(
                        hour + 0.5, day + 0.5, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=6.5
                    )
        axes.set_yticks(np.arange(7) + 0.5, _DAYS, color=INK)
        axes.set_xticks(np.arange(0, 24, 3) + 0.5, [f"{hour}:00" for hour in range(0, 24, 3)])
        axes.invert_yaxis()
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_title(f"{found.title} ({found.unit})", color=DIM)

    return draw(2.0, paint)
