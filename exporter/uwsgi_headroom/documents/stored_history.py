"""Builds a server's history from the file that lasts, with slices of a minute and more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from uwsgi_headroom.documents.history import (
    DIGITS,
    History,
    SocketHistory,
    WaitHistory,
    WorkerHistory,
    append_routes,
    append_slice,
)
from uwsgi_headroom.documents.response_times import append_percentiles
from uwsgi_headroom.documents.routes import RouteHistory
from uwsgi_headroom.store.record import Record, merge_records
from uwsgi_headroom.store.tiers import MINUTES, TIERS, Tier
from uwsgi_headroom.watch.turns import ThreadTurns

_LATEST_SECONDS = 15.0
"""When the last record of a slice is in the file at the latest, in seconds after its end."""


def build_stored_history(
    path: Path, name: str, step: float, since: float, until: float, now: float, turns: ThreadTurns | None = None
) -> History:
    """Build the history of the server `name` between two times (epoch seconds) from a history file, in slices of about
    `step` seconds or of the shortest records that are kept for that long. now: the present time. turns: of the thread
    that this runs in. Raises HistoryFileError, GivenUpError."""
    turns = turns or ThreadTurns()
    tier = choose_tier(step, since, now)
    step = max(1, math.ceil(step / tier.seconds)) * float(tier.seconds)
    from uwsgi_headroom.store.reader import HistoryFile  # noqa: PLC0415 - loads sqlite3

    with HistoryFile(path, now) as file:
        # Start one step early, as every slice begins with the end of the previous one.
        records = file.records(name, since - step, until, tier.seconds)
        slices = list(_merge_slices(records, step, tier, now, turns))
    return _build(name, step, since, until, slices, turns)


def choose_tier(step: float, since: float, now: float) -> Tier:
    """The tier for slices of `step` seconds that begin at `since`: its records are not longer, if such records are kept
    for so long."""
    kept = [tier for tier in TIERS if since >= now - tier.kept] or [TIERS[-1]]
    return max([tier for tier in kept if tier.seconds <= step], key=lambda tier: tier.seconds, default=kept[0])


def _merge_slices(
    records: Iterator[Record], step: float, tier: Tier, now: float, turns: ThreadTurns
) -> Iterator[Record]:
    """One record for each multiple of `step` seconds of the epoch, but for the last one if it has not ended."""
    for slot, group in groupby(records, key=lambda record: _slot(record.until, step)):
        parts = list(group)
        has_last = _slot(parts[-1].until, tier.seconds) * tier.seconds >= slot * step
        if has_last or slot * step < now - _LATEST_SECONDS:
            yield merge_records(parts)
        turns.pause_if_due()


def _slot(until: float, step: float) -> int:
    # A record ends with the first sample after its minute.
    return math.ceil((until - MINUTES.seconds / 2) / step)


def _build(name: str, step: float, since: float, until: float, slices: Sequence[Record], turns: ThreadTurns) -> History:
    backends = _union(record.window.waits.backends if record.window.waits else () for record in slices)
    routes = _union(record.routes.seconds if record.routes else () for record in slices)
    sockets = _union(record.window.queue_seconds for record in slices)
    workers = sorted({worker.worker_id for record in slices for worker in record.window.workers})
    columns = History(
        name=name,
        step=step,
        since=since,
        until=until,
        waits=WaitHistory(backend_names=tuple(backends), backends=[[] for _ in backends]),
        routes=RouteHistory(routes=tuple(routes), threads=[[] for _ in routes]) if routes else None,
        sockets=[SocketHistory(name=socket) for socket in sockets],
        workers=[WorkerHistory(worker_id=worker_id) for worker_id in workers],
    )
    for record in slices:
        if record.until <= since:
            continue
        columns.time.append(round(record.until, 3))
        append_slice(columns, record.window, record.levels.cpus, record.levels.others_follow)
        append_percentiles(columns.response_times, record.response_times, DIGITS)
        append_routes(columns, record.window, record.routes)
        turns.pause_if_due()
    return columns


def _union(names: Iterable[Iterable[str]]) -> list[str]:
    """All names, in the order in which they come first."""
    return list(dict.fromkeys(name for some in names for name in some))
