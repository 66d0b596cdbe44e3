"""Section 5: where the time goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.report.render.charts.bars import draw_parts
from uwsgi_headroom.report.render.document import Block, Chart, Table, Text, absent
from uwsgi_headroom.report.render.figures import amount, seconds, share
from uwsgi_headroom.report.review.sections import Absent, Part, ServiceReview
from uwsgi_headroom.words.formats import duration, percent

INTRODUCTION = (
    "What a mean request spends its time on at peak: threads in a state over requests per second (Little's law). It "
    "says which change makes requests faster."
)


def write(service: ServiceReview) -> Iterator[Block]:
    """The section of a service."""
    time = service.time
    if isinstance(time, Absent):
        yield absent(time.reason)
        return
    cpu = "unknown" if time.cpu_per_request is None else duration(time.cpu_per_request)
    mean = "unknown" if time.response_time is None else duration(time.response_time)
    yield Text(f"A mean request takes {mean} at peak and uses {cpu} of CPU time.")
    states = time.states
    if isinstance(states, Absent):
        yield absent(states.reason)
    else:
        parts = ", ".join(f"{part.name} {percent(part.share)}" for part in states)
        yield Chart(f"Time of a mean request: {parts}.", lambda: draw_parts(states))
        yield _table("state", states)
    for name, found in (("backend", time.backends), ("route", time.routes)):
        yield absent(found.reason) if isinstance(found, Absent) else _table(name, found)


def _table(name: str, parts: Sequence[Part]) -> Table:
    return Table(
        heads=(name, "threads", "of a mean request", "share"),
        rows=[(part.name, amount(part.threads), seconds(part.per_request), share(part.share)) for part in parts],
        numbers=(1, 2, 3),
    )
