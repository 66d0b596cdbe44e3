"""Findings about workers that are idle while requests wait: something keeps them from taking the next one.

A lack of capacity never looks like that: where a thread is free, it takes a waiting request within milliseconds. With
`thunder-lock`, one process at a time waits for the next request and holds a lock meanwhile; if that process is stopped,
no other takes a request either. uWSGI reports the process that holds the lock.
"""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.bottlenecks import why_free_threads_do_not_serve
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import causes, workers
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.littles_law import waits_beside_free
from uwsgi_headroom.analysis.shortages import lacks_cpu
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import ASYNC, fill_cores, kill, name_slots
from uwsgi_headroom.record import WorkerRecord
from uwsgi_headroom.words.formats import counted, duration, mean_count, mean_threads, numbered, percent

CANNOT_SERVE = ("workers_paused", "reload_waits", "workers_ending", "start_hangs", "respawn_loop", "recycled_together")
"""Findings of `causes` and `workers` that explain why free threads take no request. A worker that has ended looks free
until uWSGI's master has noticed."""


def find(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that are idle while requests wait, or else about workers that are stopped."""
    blocked = list(_blocked(figures))
    yield from blocked or _stopped(figures)


def find_stopped(figures: Figures) -> list[WorkerRecord]:
    """The workers whose processes are stopped."""
    return [worker for worker in figures.server.workers if worker.is_stopped and not worker.ended]


def _blocked(figures: Figures) -> Iterator[Finding]:
    idle, observed = figures.window.idle_queue_seconds or 0.0, figures.window.observed_seconds
    if not waits_beside_free(figures.window, figures.flow) or not _is_unexplained(figures):
        return
    clause, change = _explain(figures)
    yield Finding(
        code="accept_blocked",
        severity="warning",
        title="Workers are idle while requests wait.",
        evidence=f"For {duration(idle)} of {duration(observed)} ({percent(idle / observed)}), requests waited although "
        f"a thread was free; on average, {mean_count(figures.flow.observed or 0.0)} of {mean_threads(figures.threads)} "
        f"{name_slots(figures.server)} were busy.",
        meaning="Threads are free, so more threads or processes would not help.",
        clause=clause,
        change=change,
    )


def _stopped(figures: Figures) -> Iterator[Finding]:
    stopped = find_stopped(figures)
    if not stopped:
        return
    ids, workers = [worker.worker_id for worker in stopped], len(figures.server.workers)
    yield Finding(
        code="workers_stopped",
        severity="warning",
        title=f"{numbered('Worker', ids)} {'is' if len(ids) == 1 else 'are'} stopped.",
        evidence=f"SIGSTOP, a debugger or a cgroup freezer stopped {len(stopped)} of {counted(workers, 'worker')}.",
        meaning="A stopped process serves nothing until you resume it, and its requests wait.",
        clause="all workers are stopped" if len(stopped) == workers else "",
        change=_continue(stopped),
    )


def _continue(stopped: list[WorkerRecord]) -> str:
    return f"Resume the stopped {'worker' if len(stopped) == 1 else 'workers'}: {kill('CONT', stopped)}."


def _is_unexplained(figures: Figures) -> bool:
    """Whether nothing else is known that keeps free threads from serving: workers that are paused, end or start, a
    socket of single workers, cheaper mode, connections that clients keep, a call that blocks all coroutines of a
    worker, no idle CPU (a worker that is waiting for a CPU takes no request either)."""
    if any(finding.code in CANNOT_SERVE for finding in (*causes.find(figures), *workers.find(figures))):
        return False
    cpus = figures.server.cpus
    if cpus and lacks_cpu(figures, cpus.count):
        return False
    slots = name_slots(figures.server)
    if slots == ASYNC and not fill_cores(figures):
        return False
    if figures.waits and figures.waits.share("client") >= MOSTLY:
        return False
    return why_free_threads_do_not_serve(figures) is None


def _explain(figures: Figures) -> tuple[str, str]:
    """The cause as a clause, and the change."""
    holder, stopped = figures.server.accept_lock_holder, find_stopped(figures)
    by_pid = {worker.pid: worker for worker in figures.server.workers if worker.pid}
    if holder is not None and holder in by_pid:
        worker = by_pid[holder]
        which = f"worker {worker.worker_id} (PID {holder})"
        if worker.is_stopped:
            return (
                f"workers are idle, and {which}, which holds the accept lock, is paused (SIGSTOP)",
                f"Resume the stopped worker: {kill('CONT', [worker])}. With `thunder-lock`, only one process at a time "
                "accepts requests. While the stopped worker holds this lock, no other process can accept requests.",
            )
        return (
            f"workers are idle, and {which} holds the accept lock and accepts nothing",
            f"Kill worker {worker.worker_id}, which holds the accept lock, with {kill('KILL', [worker])}: uWSGI then "
            "starts another worker, and the lock is free again. If the problem comes back, remove `thunder-lock`.",
        )
    if holder is not None:
        return (
            f"workers are idle, and PID {holder}, which holds the accept lock, is no longer a worker",
            "Reload uWSGI: a process exited while it held the accept lock. If the problem comes back, remove "
            "`thunder-lock`.",
        )
    if stopped:
        which = numbered("worker", [worker.worker_id for worker in stopped])
        return f"{which} {'is' if len(stopped) == 1 else 'are'} stopped", _continue(stopped)
    return (
        "workers that are idle accept none of them",
        "Find out why the idle workers accept no requests: run `py-spy dump --native` on one of these workers, or "
        "check uWSGI's log. A worker accepts no requests while it is suspended, or while it waits for one of uWSGI's "
        "own locks.",
    )
