"""Section 4: balance."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.report.render.charts.bars import draw_shares
from uwsgi_headroom.report.render.document import Block, Chart, Table, Text, absent
from uwsgi_headroom.report.render.figures import UNKNOWN, seconds, share
from uwsgi_headroom.report.review.sections import Absent, BalanceReview, ServerBalance, ServiceReview

INTRODUCTION = (
    "How evenly servers and their workers share the requests in the quarter hour that counts, and what unevenness "
    "costs. A worker computes Python on one CPU at a time, so one with too large a share is slow while others idle."
)


def write(service: ServiceReview) -> Iterator[Block]:
    """The section of a service."""
    balance = service.balance
    if isinstance(balance, Absent):
        yield absent(balance.reason)
        return
    yield Text(balance.summary)
    if any(server.workers for server in balance.servers):
        yield Chart(balance.summary, lambda: draw_shares(balance))
    yield _table(balance)
    yield Text(
        "Hot ratio: workers times the largest share; 1 is even, and up to the number in parentheses is chance. Time "
        "lost: what even workers would save of the mean response time. Capacity lost: the part of a server that "
        "uneven workers waste, as their hottest interpreter is full before the next limit.",
        "note",
    )


def _table(balance: BalanceReview) -> Table:
    return Table(
        heads=("server", "share of requests", "shares of workers", "hot ratio", "time lost", "capacity lost"),
        rows=[_row(server) for server in balance.servers],
        numbers=(1, 3, 4, 5),
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
