"""A synthetic history as the data of a capacity review."""

from __future__ import annotations

from tests.support.synthetic.plan import History
from tests.support.synthetic.server import make_server
from uwsgi_headroom.report.columns import STEP, Query, ReviewData


def make_review_data(history: History, *, partial: bool = False, problems: tuple[str, ...] = ()) -> ReviewData:
    """The whole history in quarters of an hour, without an error of measurement."""
    servers = [
        make_server(history, service, place, STEP) for service in history.services for place in range(service.servers)
    ]
    return ReviewData(
        servers=tuple(servers),
        since=history.since,
        until=history.until,
        source=f"synthetic history, seed {history.seed}",
        time_zone=history.zone,
        queries=(Query(text="tests.support.synthetic", answers=len(servers), seconds=0.0),),
        problems=problems,
        partial=partial,
    )
