"""Findings about workers that fail: killed, respawned, stuck, growing, raising."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.formatting import counted, duration, megabytes, numbered, percent
from uwsgi_headroom.analysis.stuck import STUCK_SECONDS, find_stuck_requests
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker

RESPAWN_LOOP = 3
"""Respawns of one worker slot within one window; cheaper mode and a reload spawn each slot once."""

EXCEPTIONS = 0.01
"""Part of the requests that raise, from which it is a warning."""

GROWTH = (0.10, 16e6)
"""Growth of resident memory within a window that is worth a word: this part of it, and at least so many bytes."""


def find(figures: Figures, reading: Reading) -> Iterator[Finding]:
    """Findings of this module."""
    workers = figures.snapshot.workers
    yield from _killed(figures)
    yield from _stuck(reading, workers)
    yield from _exceptions(figures)
    yield from _growing(figures)
    ended = [worker.worker_id for worker in workers if reading.process_is_missing(worker)]
    missing = [worker.worker_id for worker in workers if worker.state in ("gone", "starting")]
    if ended or missing:
        absent = sorted({*ended, *missing})
        yield Finding(
            code="workers_missing",
            severity="warning",
            title=f"{numbered('Worker', absent)} {_verb(absent)} not there, or not ready yet.",
            evidence=f"{len(ended)} ended without uWSGI having noticed, {len(missing)} gone or still starting.",
            meaning="Capacity is smaller meanwhile. A moment of it is a reload or a respawn; if it stays, see the log.",
        )


def _verb(workers: Sequence[int]) -> str:
    return "is" if len(workers) == 1 else "are"


def _killed(figures: Figures) -> Iterator[Finding]:
    window = figures.window
    if window.harakiris:
        yield Finding(
            code="harakiri",
            severity="warning",
            title=f"uWSGI ended a worker for a request over its `harakiri` time, {counted(window.harakiris, 'time')}.",
            evidence=f"{window.harakiris} in {duration(window.seconds)}.",
            meaning="All requests of that worker are lost with it, and counted nowhere.",
            change="Find the slow request in uWSGI's log; it prints its address. With `threads`, mind that all of a "
            "worker's requests die together.",
        )
    looping = [worker.worker_id for worker in window.workers if worker.respawns >= RESPAWN_LOOP + window.reloads]
    if looping:
        yield Finding(
            code="respawn_loop",
            severity="critical",
            title=f"{numbered('Worker', looping)} {_verb(looping)} respawned again and again.",
            evidence=f"{window.respawns} respawns in {duration(window.seconds)}, {window.harakiris} by harakiri.",
            meaning="Every respawn loads the application again and loses what the worker was doing.",
            change="See uWSGI's log for signals and import errors; raise `max-requests` and `reload-on-rss` if they "
            "are what does it.",
        )


def _stuck(reading: Reading, workers: Sequence[Worker]) -> Iterator[Finding]:
    requests = find_stuck_requests(reading, workers)
    if requests:
        oldest, _ = requests[0]
        affected = sorted({worker_id for _, worker_id in requests})
        yield Finding(
            code="request_stuck",
            severity="warning",
            title=f"{counted(len(requests), 'request')} in service for longer than {duration(STUCK_SECONDS)}.",
            evidence=f"The oldest for {duration(oldest)}; in {numbered('worker', affected)}.",
            meaning="Each keeps a thread from the others. Little's law does not see them until they end.",
            change="See what it waits for (py-spy dump --pid PID of that worker); set timeouts on what the application "
            "calls, and `harakiri` as the last resort.",
        )


def _exceptions(figures: Figures) -> Iterator[Finding]:
    raised, requests = figures.window.exceptions, figures.flow.requests
    if not raised:
        return
    part = raised / max(raised, requests)
    some = percent(part) if part >= 0.005 else "A few"
    yield Finding(
        code="exceptions",
        severity="warning" if part >= EXCEPTIONS else "info",
        title=f"{some} of the requests raised an exception out of the application.",
        evidence=f"{raised} of {requests} requests.",
        meaning="uWSGI counts what escapes the application, and clients that left in the middle of an answer.",
        change="uWSGI's log has the tracebacks.",
    )


def _growing(figures: Figures) -> Iterator[Finding]:
    part, least = GROWTH
    growing = [
        worker
        for worker in figures.window.workers
        if worker.resident_growth is not None
        and worker.resident_bytes
        and worker.resident_growth >= max(least, part * worker.resident_bytes)
    ]
    if growing and not figures.window.respawns:
        most = max(growing, key=lambda worker: worker.resident_growth or 0)
        yield Finding(
            code="memory_growing",
            severity="warning",
            title=f"The memory of {numbered('worker', [worker.worker_id for worker in growing])} is growing.",
            evidence=f"Worker {most.worker_id}: {megabytes(most.resident_growth or 0)} more in "
            f"{duration(figures.window.seconds)}, {megabytes(most.resident_bytes or 0)} now.",
            meaning="It may be a cache filling after a start; if it goes on, it is a leak.",
            change="If it goes on: `reload-on-rss` or `max-requests` until the leak is found.",
        )
