"""Section 4: balance."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure

from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.report.render.charts import BAND, BLUE, DIM, INK, VERMILLION, draw, label, shorten
from uwsgi_headroom.report.render.document import UNKNOWN, Block, Chart, Table, Text, seconds, share
from uwsgi_headroom.report.review.sections import BalanceReview, ServerBalance
from uwsgi_headroom.words.formats import percent

INTRODUCTION = (
    "How evenly servers and their workers share the requests in the quarter hour that counts, and what unevenness "
    "costs. A worker computes Python on one CPU at a time, so one with too large a share is slow while others idle."
)


def write(balance: BalanceReview) -> Iterator[Block]:
    yield Text(balance.summary)
    if any(server.workers for server in balance.servers):
        yield Chart(balance.summary, lambda: _draw_shares(balance))
    yield Table(
        heads=("server", "share of requests", "shares of workers", "hot ratio", "time lost", "capacity lost"),
        rows=[_row(server) for server in balance.servers],
        numbers=(1, 3, 4, 5),
    )
    yield Text(
        "Hot ratio: workers times the largest share; 1 is even, and up to the number in parentheses is chance. Time "
        "lost: what even workers would save of the mean response time. Capacity lost: the part of a server that "
        "uneven workers waste, as their hottest interpreter is full before the next limit.",
        "note",
    )


def _row(server: ServerBalance) -> tuple[str, ...]:
    shown = server.workers[:16]
    more = f" and {len(server.workers) - 16} more" if len(server.workers) > 16 else ""
    shares = " / ".join(UNKNOWN if each.share is None else f"{100 * each.share:.0f}" for each in shown)
    ratio = UNKNOWN if server.hot_ratio is None else f"{server.hot_ratio:.2f} ({server.noise_floor or 1:.2f})"
    return (
        server.server,
        share(server.share),
        f"{shares} %{more}" if shown else UNKNOWN,
        ratio if shown else UNKNOWN,
        seconds(server.cost_seconds),
        share(server.cost_servers),
    )


MOST_SERVERS = 16

_LIFT = 0.5
"""Height over which the dots of a row are spread, so that equal ones do not hide each other."""


def _draw_shares(balance: BalanceReview) -> str:
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
                    label(axes, text, (load, height), (-13, 0), va="center", ha="right")
        axes.axvspan(REACHED, 1.0, color=BAND, zorder=0, linewidth=0)
        axes.axvline(1.0, color=INK, linewidth=1)
        axes.set_xlim(0, 1.08)
        axes.set_ylim(-0.7, len(servers) - 0.3)
        axes.set_yticks(range(len(servers)), [shorten(server.server) for server in reversed(servers)], color=INK)
        axes.set_xlabel(
            f"load of the worker's interpreter, in CPUs (saturated from {REACHED:g} on)\nlarger dot: more requests"
        )
        axes.xaxis.label.set_color(DIM)
        axes.spines["left"].set_visible(False)
        axes.tick_params(length=0)

    return draw(0.9 + 0.36 * len(servers), paint)
