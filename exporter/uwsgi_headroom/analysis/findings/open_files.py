"""Findings about file descriptors: workers that have as many open as they may, or soon will."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.words.formats import counted, numbered, percent

NEAR = 0.8
"""The part of its descriptors that a worker has open from which on it is near the limit: a leak gets there whatever
the limit, and a burst of requests may need some each. Raise it if a worker is meant to hold many connections."""

LEFT = 3
"""With so few left, a worker is at its limit: a request takes one for its connection, and more for what it opens."""


def find(figures: Figures) -> Iterator[Finding]:
    """The finding about the workers that are nearest to their limit."""
    near = [
        (worker.most_fds - worker.open_fds, worker)
        for worker in figures.server.workers
        if worker.open_fds and worker.most_fds and worker.open_fds >= NEAR * worker.most_fds
    ]
    if not near:
        return
    full = [worker for left, worker in near if left <= LEFT]
    affected = full or [worker for _, worker in near]
    worst = min(near, key=lambda each: each[0])[1]
    numbers = [worker.worker_id for worker in affected]
    have = "has" if len(affected) == 1 else "have"
    yield Finding(
        code="descriptors_used_up",
        severity="critical" if full else "warning",
        title=f"{numbered('Worker', numbers)} {have} no file descriptors left."
        if full
        else f"{numbered('Worker', numbers)} {have} few file descriptors left.",
        evidence=f"{worst.open_fds} of {worst.most_fds} are open in worker {worst.worker_id} "
        f"({percent((worst.open_fds or 0) / (worst.most_fds or 1))}); "
        f"{counted(len(near), 'worker')} of {len(figures.server.workers)} above {percent(NEAR)}.",
        meaning="Each connection and each open file takes one. Without a free one a worker accepts no request, and "
        "what the application opens fails with `Too many open files`.",
        clause=f"{numbered('worker', numbers)} {have} no file descriptors left" if full else "",
        change=f"See what is open with `ls -l /proc/{worst.pid or 'PID'}/fd`: a number that only grows is a leak. If "
        f"all are needed, raise `max-fd` from {worst.most_fds} (and LimitNOFILE of its service manager).",
    )
