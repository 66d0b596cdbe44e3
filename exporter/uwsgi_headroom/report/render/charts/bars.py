"""Draws the parts of a mean request's time.

Draws how the workers of each server share its requests.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.report.render.charts.style import BAND, BLUE, DIM, INK, VERMILLION, draw
from uwsgi_headroom.report.review.sections import BalanceReview, Part
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


MOST_SERVERS = 16

_LIFT = 0.5
"""Height over which the dots of a row are spread, so that equal ones do not hide each other."""


def draw_shares(balance: BalanceReview) -> str:
    """A row for each server, a dot for each worker: at its interpreter load, as large as its share of the requests."""
    servers = [server for server in balance.servers if server.workers][:MOST_SERVERS]

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for place, server in enumerate(reversed(servers)):
            known = [worker for worker in server.workers if worker.interpreter is not None]
            for row, worker in enumerate(known):
                hot = worker.worker == server.hottest and (worker.interpreter or 0) >= 0.5
                colour = VERMILLION if hot else BLUE
                load = worker.interpreter or 0.0
                area = 20 + 500 * (worker.share or 0.0)
                height = place + _LIFT * (row / max(1, len(known) - 1) - 0.5)
                axes.scatter(load, height, s=area, color=colour, alpha=0.6, linewidth=0)
                if hot:
                    text = f"worker {worker.worker}: {percent(worker.share or 0)} of requests"
                    axes.annotate(
                        text, (load, height), xytext=(-13, 0), textcoords="offset points", va="center", ha="right"
                    )
        axes.axvspan(REACHED, 1.0, color=BAND, zorder=0, linewidth=0)
        axes.axvline(1.0, color=INK, linewidth=1)
        axes.set_xlim(0, 1.08)
        axes.set_ylim(-0.7, len(servers) - 0.3)
        axes.set_yticks(range(len(servers)), [server.server for server in reversed(servers)], color=INK)
        axes.set_xlabel("load of the worker's interpreter, in CPUs (saturated from 0.85 on); larger dot: more requests")
        axes.xaxis.label.set_color(DIM)
        axes.spines["left"].set_visible(False)
        axes.tick_params(length=0)

    return draw(0.75 + 0.36 * len(servers), paint)
