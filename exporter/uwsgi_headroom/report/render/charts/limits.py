"""Draws how full each limit is at peak.

Draws the chart of page one: how full the first limit of each service is.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.report.render.charts.style import BAND, BLUE, DIM, INK, ORANGE, PANEL, VERMILLION, draw
from uwsgi_headroom.report.render.figures import limit_name
from uwsgi_headroom.report.review.sections import Absent, LimitUse, ServiceReview, Utilization
from uwsgi_headroom.words.formats import percent

CAPTION = (
    "Bar: at peak. Line below it: from half of the days to the highest. Diamond: with one server lost. Shaded: reached."
)


def draw_limits(used: Utilization) -> str:
    """A bar for each limit: use in the quarter hour that counts; a line from half of the days to the highest day; a
    mark where it would be with one server lost."""
    return draw_bars([(limit_name(use.limit), use) for use in used.limits])


def draw_bars(rows: Sequence[tuple[str, LimitUse]], title: str = "") -> str:
    """The same for limits of any services, with the names of the rows."""

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        places = range(len(rows))[::-1]
        for place, (_, use) in zip(places, rows, strict=True):
            now = 1 / use.factor if use.factor else 0.0
            colour = VERMILLION if now >= REACHED else ORANGE if now >= 1 / 1.5 else BLUE
            axes.barh(place, 100 * now, height=0.5, color=colour)
            spread = use.utilization
            axes.plot([100 * spread.p50, 100 * spread.highest], [place - 0.37] * 2, color=DIM, linewidth=2)
            inside = now >= 0.15
            axes.annotate(
                percent(now),
                (100 * now, place),
                xytext=(-5 if inside else 5, 0),
                textcoords="offset points",
                ha="right" if inside else "left",
                va="center",
                color=PANEL if inside else INK,
                fontweight="bold",
            )
            if use.one_lost is not None:
                lost = min(use.one_lost, 1.4)
                axes.plot([100 * lost], [place], marker="D", color=INK, markersize=5, linestyle="none")
                axes.annotate(
                    f"{percent(use.one_lost)} if one is lost",
                    (100 * lost, place),
                    xytext=(7, 0),
                    textcoords="offset points",
                    va="center",
                    color=DIM,
                )
        axes.axvspan(100 * REACHED, 100, color=BAND, zorder=0, linewidth=0)
        axes.axvline(100, color=INK, linewidth=1)
        axes.set_yticks(list(places), [name for name, _ in rows], color=INK)
        axes.set_xlim(0, 185)
        axes.set_xticks([0, 50, 85, 100], ["0", "50 %", "85 %", "100 %"])
        reached, full = axes.get_xticklabels()[2:]
        reached.set_horizontalalignment("right")
        full.set_horizontalalignment("left")
        axes.set_ylim(-0.7, len(rows) - 0.4)
        axes.spines["left"].set_visible(False)
        axes.tick_params(length=0)
        axes.set_title(title, color=DIM)

    return draw((0.6 if title else 0.45) + 0.33 * len(rows), paint)


MOST_SERVICES = 3
"""With more, page one has no room for the chart; section 2 has one for each service."""


def bars_of(services: Sequence[ServiceReview]) -> list[tuple[str, LimitUse]]:
    """For a single service each of its limits; for several the limit that comes first in each; nothing
    for many."""
    if len(services) > MOST_SERVICES:
        return []
    if len(services) == 1:
        used = services[0].utilization
        return [] if isinstance(used, Absent) else [(limit_name(use.limit), use) for use in used.limits]
    rows: list[tuple[str, LimitUse]] = []
    for service in services:
        used = service.utilization
        if not isinstance(used, Absent):
            rows += [
                (f"{service.service}: {limit_name(use.limit)}", use) for use in used.limits if use.limit == used.first
            ]
    return rows


def draw_verdict(services: Sequence[ServiceReview]) -> str:
    """The chart; empty without any bar."""
    rows = bars_of(services)
    title = "Use of each limit at peak" if len(services) == 1 else "Use at peak of the limit that comes first"
    return draw_bars(rows, title) if rows else ""
