"""Determines for how much of a window workers were down, and which workers are paused or have no application loaded."""

from __future__ import annotations

from collections.abc import Sequence

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.record.server import ServerRecord, WorkerRecord

AWAY = 0.15
"""If workers are down for at least this fraction of the time, that is why capacity is short."""

FAILING = 3
"""A worker that ends this often without serving a request in between cannot start."""

RESUME = (
    "Resume them: write `p` to uWSGI's `master-fifo`, or send SIGTSTP to the master. "
    "Do so once: the same pauses them again."
)
"""The advice about paused workers."""


def part_away(figures: Figures) -> float | None:
    """The fraction of a window in which workers were down; None if unknown, or if cheaper mode may be the reason."""
    options = figures.server.setup.options
    if not options.complete or options.cheaper:
        return None
    up = [worker.up_seconds for worker in figures.window.workers]
    observed = figures.window.observed_seconds * len(up)
    return None if not observed else max(0.0, 1 - sum(up) / observed)


def find_failing(figures: Figures) -> list[int]:
    """The ids of workers that ended repeatedly, serve nothing in between, and are not up now."""
    up = {worker.worker_id for worker in figures.server.workers if worker.state == "accepting"}
    return [
        worker.worker_id
        for worker in figures.window.workers
        if worker.worker_id not in up
        and worker.respawns - figures.window.reloads >= FAILING
        and worker.requests < worker.respawns
    ]


def find_paused(workers: Sequence[WorkerRecord]) -> list[WorkerRecord]:
    """The workers that are paused: they take no request until they are resumed."""
    return [worker for worker in workers if worker.state == "paused"]


def find_without_application(server: ServerRecord) -> tuple[list[WorkerRecord], list[WorkerRecord]] | None:
    """The accepting workers, and those among them without a loaded application; None if the configuration names no
    application or cannot be read."""
    if not server.setup.options.names_application:
        return None
    accepting = [worker for worker in server.workers if worker.state == "accepting" and not worker.ended]
    return accepting, [worker for worker in accepting if not worker.has_application]
