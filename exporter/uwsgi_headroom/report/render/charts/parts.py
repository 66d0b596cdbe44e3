"""Draws the parts of a mean request's time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from uwsgi_headroom.report.render.charts.style import INK, draw
from uwsgi_headroom.report.review.model import Part
from uwsgi_headroom.words.colours import ink_on
from uwsgi_headroom.words.formats import duration, percent
from uwsgi_headroom.words.states import WAITS

_COLOURS = {state.name: state.colour.light for state in WAITS.values()}

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
            colour = _COLOURS.get(part.name, WAITS["other"].colour.light)
            axes.barh(0, width, left=start, height=0.6, color=_fixed(colour), edgecolor="#ffffff")
            size = percent(width) if part.per_request is None else duration(part.per_request)
            if width >= _WIDE:
                ink = _fixed(ink_on(colour))
                axes.text(start + width / 2, 0, f"{part.name}\n{size}", ha="center", va="center", color=ink)
            elif width >= 0.03:
                axes.text(
                    start + width / 2, -0.42, f"{part.name}\n{size}", ha="center", va="top", color=INK, fontsize=7
                )
            start += width
        axes.set_xlim(0, 1)
        axes.set_ylim(-0.95, 0.35)
        axes.axis("off")

    return draw(0.95, paint)


def _fixed(colour: str) -> str:
    """A colour that looks the same and is not in the palette, which `draw` replaces by the page's variables: on a dark
    screen those are others, but the text on a part is chosen for this colour."""
    blue = int(colour[5:], 16)
    return f"{colour[:5]}{blue - 1 if blue else 1:02x}"
