"""Findings about workers that are idle while requests wait: something keeps them from taking the next one.

A lack of capacity never looks like that: where a thread is free, it takes a waiting request within milliseconds. With
`thunder-lock`, one process at a time waits for the next request and holds a lock meanwhile; if that process is stopped,
no other takes a request either. uWSGI reports the process that holds the lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from uwsgi_headroom.analysis.bottlenecks import why_free_threads_do_not_serve
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings import causes, workers
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.littles_law import waits_beside_free
from uwsgi_headroom.analysis.shortages import lacks_cpu
from uwsgi_headroom.analysis.wait_states import MOSTLY
from uwsgi_headroom.analysis.worker_states import ASYNC, fill_cores, kill, name_slots
from uwsgi_headroom.record import WorkerRecord
from uwsgi_headroom.words.template import Facts, Private

CANNOT_SERVE = ("workers_paused", "reload_waits", "workers_ending", "start_hangs", "respawn_loop", "recycled_together")
"""Findings of `causes` and `workers` that explain why free threads take no request. A worker that has ended looks free
until uWSGI's master has noticed."""


ACCEPT_NOTHING = Kind(
    code="accept_blocked",
    severity="warning",
    title="Workers are idle while requests wait.",
    evidence="For {idle:duration} of {observed:duration} ({part:percent}), requests waited although a thread was free.",
    meaning="Threads are free, so more threads or processes would not help.",
    act="Find out why the idle workers accept no requests: run `py-spy dump --native` on one of them.",
    then="A worker accepts no requests while it is suspended, or while it waits for one of uWSGI's own locks. See also "
    "uWSGI's log.",
    clause="workers that are idle accept none of them",
    limits="waits",
)
IDLE_AND_STOPPED = replace(
    ACCEPT_NOTHING,
    act="Resume {ids:worker}, which {ids:is|are} stopped: {resume}.",
    then="",
    clause="{ids:worker} {ids:is|are} stopped",
)
HOLDER_STOPPED = replace(
    ACCEPT_NOTHING,
    act="Resume the stopped worker: {resume}.",
    then="With `thunder-lock`, only one process at a time accepts requests. While the stopped worker holds this lock, "
    "no other process can accept requests.",
    clause="workers are idle, and worker {holder}{pid}, which holds the accept lock, is paused (SIGSTOP)",
)
HOLDER_ACCEPTS_NOTHING = replace(
    ACCEPT_NOTHING,
    act="Kill worker {holder}, which holds the accept lock, with {kill}.",
    then="uWSGI then starts another worker, and the lock is free again. If the problem comes back, remove "
    "`thunder-lock`.",
    clause="workers are idle, and worker {holder}{pid} holds the accept lock and accepts nothing",
)
HOLDER_GONE = replace(
    ACCEPT_NOTHING,
    act="Reload uWSGI: a process exited while it held the accept lock.",
    then="If the problem comes back, remove `thunder-lock`.",
    clause="workers are idle, and a process{pid} that holds the accept lock is no longer a worker",
)

WORKERS_STOPPED = Kind(
    code="workers_stopped",
    severity="warning",
    title="{ids:Worker} {ids:is|are} stopped.",
    evidence="SIGSTOP, a debugger or a cgroup freezer stopped {ids:worker} (of {workers}).",
    meaning="A stopped process serves nothing until you resume it, and its requests wait.",
    act="Resume {ids:worker}: {resume}.",
    clause="[all? all workers are stopped]",
)


def find(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that are idle while requests wait, or else about workers that are stopped."""
    if waits_beside_free(figures.window, figures.flow) and _is_unexplained(figures):
        yield _blocked(figures)
    else:
        yield from _stopped(figures)


def find_stopped(figures: Figures) -> list[WorkerRecord]:
    """The workers whose processes are stopped."""
    return [worker for worker in figures.server.workers if worker.is_stopped and not worker.ended]


def _stopped(figures: Figures) -> Iterator[Finding]:
    stopped, workers = find_stopped(figures), len(figures.server.workers)
    if stopped:
        ids = [worker.worker_id for worker in stopped]
        yield WORKERS_STOPPED.found(
            figures, ids=ids, workers=workers, resume=_resume(stopped), all=len(stopped) == workers
        )


def _resume(stopped: Sequence[WorkerRecord]) -> Private:
    return Private(kill("CONT", stopped), "`kill -CONT`")


def _blocked(figures: Figures) -> Finding:
    idle, observed = figures.window.idle_queue_seconds or 0.0, figures.window.observed_seconds
    facts: Facts = {"idle": idle, "observed": observed, "part": idle / observed}
    pid, stopped = figures.server.accept_lock_holder, find_stopped(figures)
    if pid is not None:
        return _held(figures, pid, facts | {"pid": Private(f" (PID {pid})")})
    if not stopped:
        return ACCEPT_NOTHING.found(figures, facts)
    return IDLE_AND_STOPPED.found(figures, facts, ids=[worker.worker_id for worker in stopped], resume=_resume(stopped))


def _held(figures: Figures, pid: int, facts: Facts) -> Finding:
    """Of a process that holds the accept lock."""
    worker = next((worker for worker in figures.server.workers if worker.pid == pid), None)
    if worker is None:
        return HOLDER_GONE.found(figures, facts)
    holder = worker.worker_id
    if worker.is_stopped:
        return HOLDER_STOPPED.found(figures, facts, holder=holder, resume=_resume([worker]), worker_id=holder)
    end = Private(kill("KILL", [worker]), "`kill -KILL`")
    return HOLDER_ACCEPTS_NOTHING.found(figures, facts, holder=holder, kill=end, worker_id=holder)


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
