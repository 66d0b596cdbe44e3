"""Findings about workers that cannot serve: they explain other findings, and so come before them."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.findings.workers import find_recycling
from uwsgi_headroom.analysis.littles_law import STANDING
from uwsgi_headroom.analysis.worker_states import RESUME, find_paused, find_without_application
from uwsgi_headroom.words.formats import counted, numbered

UP = 0.9
"""If a worker was up for at least this fraction of the window, its present absence is only momentary."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about workers that cannot serve."""
    yield from _paused(figures)
    yield from _no_application(figures)
    recycling = list(find_recycling(figures))
    yield from recycling or _missing(figures)


def _paused(figures: Figures) -> Iterator[Finding]:
    up = [worker for worker in figures.server.workers if worker.state != "reserve"]
    paused = find_paused(up)
    if not paused:
        return
    every, waiting = len(paused) == len(up), figures.flow.queue_length
    numbers = [worker.worker_id for worker in paused]
    yield Finding(
        code="workers_paused",
        severity="critical" if every and (waiting or 0.0) >= STANDING else "warning",
        title=f"{'All workers are' if every else numbered('Worker', numbers) + (' are' if len(paused) > 1 else ' is')} "
        "paused.",
        evidence=f"{len(paused)} of {counted(len(up), 'worker')}"
        + ("." if waiting is None else f"; {waiting:.1f} requests wait in the listen queue on average."),
        meaning="A paused worker takes no request until it is resumed.",
        change=RESUME,
    )


def _no_application(figures: Figures) -> Iterator[Finding]:
    known = find_without_application(figures.server)
    if not known or not known[1]:
        return
    accepting, without = known[0], [worker.worker_id for worker in known[1]]
    yield Finding(
        code="no_application",
        severity="critical" if len(without) == len(accepting) else "warning",
        title="No worker has its application loaded."
        if len(without) == len(accepting)
        else f"{numbered('Worker', without)} {'has' if len(without) == 1 else 'have'} no application loaded.",
        evidence="The configuration names an application, and uWSGI has loaded none in "
        f"{'it' if len(accepting) == 1 else 'them'}.",
        meaning="uWSGI answers every request with status 500 itself (`no python application found`).",
        change="See uWSGI's log for why the import fails; set `need-app`, so that uWSGI does not start without one.",
    )


def _missing(figures: Figures) -> Iterator[Finding]:
    workers = figures.server.workers
    ended = [worker.worker_id for worker in workers if worker.ended]
    away = [worker.worker_id for worker in workers if worker.state == "down"]
    missing = [worker_id for worker_id in away if worker_id not in ended]
    absent = sorted({*ended, *missing})
    if not absent:
        return
    window = figures.window
    up = {worker.worker_id: worker.up_seconds for worker in window.workers}
    longer = [worker for worker in absent if up.get(worker, 0.0) < UP * window.observed_seconds]
    yield Finding(
        code="workers_missing",
        severity="critical" if len(longer) == len(workers) else "warning" if longer else "info",
        title=f"{numbered('Worker', absent)} {'is' if len(absent) == 1 else 'are'} down or starting.",
        evidence=f"{len(ended)} ended unnoticed by uWSGI, {len(missing)} gone or still starting.",
        meaning="Capacity is smaller meanwhile. For a moment this is a reload or a worker restart.",
        change="See uWSGI's log for why they do not come up." if longer else "",
    )
