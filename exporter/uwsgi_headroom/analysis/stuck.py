"""Finds stuck requests. uWSGI reports the start of each request in service, so one instant is enough.

The age from which on a request counts as stuck is a setting, `--stuck`: some requests last by nature.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from uwsgi_headroom.analysis.figures import Figures, count_ceiling
from uwsgi_headroom.analysis.slots import ASYNC, ASYNC_FULL, name_slots
from uwsgi_headroom.analysis.waiting import is_standing
from uwsgi_headroom.record.server import ServerRecord, WorkerRecord

MANY_STUCK = 0.5
"""If at least this fraction of the threads is stuck, many requests find no free thread."""


def find_stuck_requests(workers: Iterable[WorkerRecord], stuck_seconds: float) -> list[tuple[float, int]]:
    """Age in seconds and worker id of each request in these workers that is at least this old, oldest first."""
    requests = ((age, worker.worker_id) for worker in workers for age in worker.ages.values() if age is not None)
    return sorted(((age, worker_id) for age, worker_id in requests if age >= stuck_seconds), reverse=True)


def find_harmful_requests(figures: Figures) -> list[tuple[float, int]]:
    """The stuck requests, if they take what other requests need; else none.

    A stuck request takes a thread. An async core costs next to nothing, and event streams, WebSockets and long polls
    hold one for as long as the client stays. So they do harm only if without them cores would be free, or if requests
    wait and none is completed.
    """
    stuck = find_stuck_requests(figures.server.workers, figures.stuck_seconds)
    if name_slots(figures.server) != ASYNC or is_standing(figures.flow):
        return stuck
    return stuck if _fill_cores(len(stuck), figures.flow.observed or 0.0, figures.ceiling) else []


def count_harmful_now(server: ServerRecord, stuck_seconds: float) -> int:
    """The number of stuck requests at one instant that take what other requests need: `find_harmful_requests` without
    a window."""
    stuck = len(find_stuck_requests(server.workers, stuck_seconds))
    if name_slots(server) != ASYNC:
        return stuck
    used = sum(len(worker.ages) for worker in server.workers)
    return stuck if _fill_cores(stuck, used, count_ceiling(server.workers)) else 0


def fill_cores(figures: Figures) -> bool:
    """Whether hardly any async core is free, because of stuck requests."""
    stuck = find_stuck_requests(figures.server.workers, figures.stuck_seconds)
    return _fill_cores(len(stuck), figures.flow.observed or 0.0, figures.ceiling)


def _fill_cores(stuck: int, used: float, ceiling: int | None) -> bool:
    return used >= ASYNC_FULL * (ceiling or math.inf) > used - stuck
