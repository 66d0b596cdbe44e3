"""Finds stuck requests. uWSGI reports the start of each request in service, so one instant is enough.

The age from which on a request counts as stuck is a setting, `--stuck`: some requests last by nature.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.slots import ASYNC, ASYNC_FULL, name_slots
from uwsgi_headroom.analysis.waiting import is_standing
from uwsgi_headroom.record.server import WorkerRecord

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
    used, full = figures.flow.observed or 0.0, ASYNC_FULL * (figures.ceiling or math.inf)
    return stuck if used >= full > used - len(stuck) else []
