"""Draws how the workers of each server share its requests."""

from __future__ import annotations

from matplotlib.figure import Figure

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.report.render.charts.style import BAND, BLUE, DIM, INK, VERMILLION, draw
from uwsgi_headroom.report.review.model import BalanceReview
from uwsgi_headroom.words.formats import percent

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
