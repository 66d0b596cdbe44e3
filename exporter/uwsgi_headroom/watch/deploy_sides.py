"""Makes the sides of a comparison from windows of the hour in memory, and from records of a history file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from uwsgi_headroom.analysis.deploys.explanation import Side
from uwsgi_headroom.analysis.deploys.judgement import Batch
from uwsgi_headroom.analysis.littles_law import compute_flow
from uwsgi_headroom.analysis.percentiles import compute_percentiles
from uwsgi_headroom.analysis.routes import compute_routes
from uwsgi_headroom.history.totals import sum_if_all_known
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.store.record import Record, merge_records

if TYPE_CHECKING:
    from uwsgi_headroom.watch.watch import Watch


def make_batch(window: Window) -> Batch | None:
    """The batch of a window; None if the server was not read for most of it, or was reloaded in it."""
    if window.reloads or window.observed_seconds < window.seconds / 2:
        return None
    workers = window.workers
    grown = [worker.resident_growth for worker in workers if not worker.respawns and worker.resident_growth is not None]
    return Batch(
        seconds=window.seconds,
        requests=float(sum([worker.requests - worker.static_requests for worker in workers])),
        time=sum_if_all_known([worker.running_time for worker in workers]),
        cpu=sum_if_all_known([worker.cpu_seconds for worker in workers]),
        errors=float(window.exceptions + sum([(worker.write_errors or 0) + worker.lost for worker in workers])),
        grown=sum(grown) / len(grown) if grown else None,
    )


Room = tuple[float | None, float | None]
"""The headroom until a limit, and until requests wait; None if it is not known."""


def find_room(watch: Watch, seconds: float) -> Room:
    """The headroom of the last seconds."""
    figures = watch.figures(watch.reading, [seconds]) if watch.reading else []
    if not figures:
        return None, None
    usable = figures[0].usable
    return figures[0].headroom.factor, usable.factor if usable else None


def explain_window(watch: Watch, window: Window, room: Room = (None, None)) -> Side:
    """What explains a window of the hour in memory."""
    times = compute_percentiles(watch.response_times(window), compute_flow(window).response_time)
    code = watch.code.history.of(window.until - window.seconds, window.until) if watch.code else None
    return Side(window, times, compute_routes(watch.routes.of(window)), code, *room)


def explain_records(records: Sequence[Record]) -> Side | None:
    """What explains records, oldest first; None without any."""
    if not records:
        return None
    record = merge_records(records)
    times = compute_percentiles(record.response_times, compute_flow(record.window).response_time)
    return Side(record.window, times, compute_routes(record.routes))
