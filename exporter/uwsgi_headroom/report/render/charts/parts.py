"""Draws the parts of a mean request's time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from uwsgi_headroom.report.render.charts.style import INK, draw
from uwsgi_headroom.report.review.model import Part
from uwsgi_headroom.words.formats import duration

_COLOURS = {
    "CPU": "#007d5a",
    "CPU wait": "#c98500",
    "interpreter lock": "#c62f2f",
    "backend": "#0072b2",
    "client": "#1397b5",
    "DNS": "#0b6e6b",
    "disk": "#85552a",
    "lock": "#a8327a",
    "sleep": "#828d99",
    "child process": "#767a12",
    "pipe": "#7a90b8",
    "other": "#4a5561",
    "unknown": "#6b7580",
}
"""The colours of the live page."""

_WIDE = 0.14
"""Share from which on a name fits into its part."""


def draw_parts(parts: Sequence[Part]) -> str:
    """One bar, with the names in it or below it."""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        start = 0.0
        total = sum(part.share for part in parts)
        for part in parts:
            width = part.share / total
            axes.barh(0, width, left=start, height=0.6, color=_COLOURS.get(part.name, "#4a5561"), edgecolor="#ffffff")
            size = f"{100 * width:.0f} %" if part.per_request is None else duration(part.per_request)
            if width >= _WIDE:
                axes.text(start + width / 2, 0, f"{part.name}\n{size}", ha="center", va="center", color="#fefefe")
            elif width >= 0.03:
                axes.text(
                    start + width / 2, -0.42, f"{part.name}\n{size}", ha="center", va="top", color=INK, fontsize=7
                )
            start += width
        axes.set_xlim(0, 1)
        axes.set_ylim(-0.95, 0.35)
        axes.axis("off")

    return draw(0.95, paint)
