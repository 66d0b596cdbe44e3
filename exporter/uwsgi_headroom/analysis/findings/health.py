"""Findings about requests that are stuck, and about growing memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.littles_law import shows_a_limit
from uwsgi_headroom.analysis.routes import describe_stuck_route
from uwsgi_headroom.analysis.worker_states import (
    ASYNC,
    MANY_STUCK,
    fill_cores,
    find_harmful_requests,
    name_slots,
    print_pids,
    see_calls,
)
from uwsgi_headroom.history.window import WorkerWindow
from uwsgi_headroom.words.template import Facts, Private

GROWTH = (0.10, 16e6)
"""Growth of resident memory within a window is a finding at or above this fraction and this number of bytes."""

THREADS = (100, 4)
"""From this number of threads that serve no request on, in one worker, this growth within a window is a finding. Usual
pools are smaller (a `ThreadPoolExecutor` has 32 threads at most, gevent's pool has 10), and stop growing."""

NEAR_TASKS = (0.8, 0.5)
"""How much of `pids.max` has to be in use, and how much of that by threads that serve no request."""


STUCK = Kind(
    code="request_stuck",
    severity="critical or warning",
    title="Requests have been in service for longer than {limit:chosen}.",
    evidence="{stuck:request} {stuck:is|are} stuck in {ids:worker}, {stuck:in service|the oldest} for "
    "{oldest:duration}.{route}",
    meaning="[not coroutines? Each stuck request holds a thread that other requests need. uWSGI includes a request in "
    "its response times only after the request has ended.][coroutines, full? Each stuck request holds an async core, "
    "and hardly any async cores are free.][coroutines, not full? Async cores are free, but no request is completed: a "
    "call that does not yield may block a worker and all of its requests. For example, a database driver may not be "
    "patched for coroutines.]",
    act="Run {calls} to see what the stuck {stuck:request waits|requests wait} for.",
    then="[many? Then restart their workers with the command that {pids} prints. ]Set timeouts on the calls that the "
    "application makes[harakiri? , and set `harakiri` as the last resort].[reset?  `harakiri` ({reset} s) does not end "
    "these requests: with `threads`, each further request of the worker resets its only timer.][coroutines, full?  If "
    "these requests stay open on purpose, raise `gevent` (or `async`).][long?  If these requests are expected to take "
    "this long, raise the option `--stuck` of uwsgi-headroom.]",
    clause="[many? stuck requests hold the {slots}]",
    runbook="UwsgiRequestStuck",
    fills_threads=True,
)

MEMORY_GROWS = Kind(
    code="memory_growing",
    role="limit",
    severity="warning",
    title="The memory of {ids:worker} is growing.",
    evidence="Worker {most} now takes {size:bytes}, which is {growth:bytes} more than {seconds:duration} ago.",
    meaning="Soon after a start, the reason may be that the application fills its caches. If the memory keeps growing, "
    "the application has a leak.",
    act="[not limit? If the memory keeps growing, set `reload-on-rss` until you have found the leak.]"
    "[limit? Make sure that all workers fit into memory at the size of `{option}`.]",
    then="[limit? uWSGI ends a worker that reaches {limit} MB. If each new process also grows, find out what the "
    "application keeps in memory.]",
    runbook="UwsgiWorkerMemoryGrowing",
)

THREADS_GROW = Kind(
    code="threads_growing",
    role="limit",
    severity="warning",
    title="{ids:Worker} {ids:keeps|keep} starting threads that do not end.",
    evidence="Worker {worst} has {threads} threads[growth? , {growth} more than {seconds:duration} ago], and {serve} "
    "of them {serve:serves|serve} requests.[most?  `pids.max` permits {most} processes and threads, and {used} are in "
    "use][left? ; at this rate, none is left in {left:duration}][most? .]",
    meaning="Each thread takes memory. When a limit of processes (`pids.max`, `ulimit -u`) or of memory is reached, "
    "the application gets `can't start new thread`, and the request fails.",
    act="Create one pool of threads in each worker, instead of one for each request.",
    then="Make sure that all threads outside of this pool end.",
)
THREADS_NEAR_LIMIT = replace(
    THREADS_GROW,
    title="The workers' threads use up most of the limit of processes and threads.",
    act="Raise the limit of processes (`TasksMax` of the unit, `pids.max` of the container).",
    then="Alternatively, let the application start fewer threads.",
)


def find_stuck(figures: Figures) -> Iterator[Finding]:
    """The finding about stuck requests: they explain why others wait."""
    requests, seconds = find_harmful_requests(figures), figures.stuck_seconds
    if not requests:
        return
    (oldest, worst), ids = requests[0], sorted({worker_id for _, worker_id in requests})
    slots, are_many = name_slots(figures.server), len(requests) >= MANY_STUCK * (figures.ceiling or math.inf)
    yield STUCK.found(
        figures,
        _find_last_resort(figures),
        worse=are_many and (slots != ASYNC or shows_a_limit(figures.flow)),
        limit=seconds,
        stuck=len(requests),
        ids=ids,
        oldest=oldest,
        route=Private(describe_stuck_route(figures.routes, figures.server, seconds)),
        coroutines=slots == ASYNC,
        full=fill_cores(figures),
        calls=see_calls(figures.server, worst),
        many=are_many,
        pids=print_pids(figures, ids),
        slots=slots,
    )


def _find_last_resort(figures: Figures) -> Facts:
    """`harakiri` helps only where it ends one request, or those of a few threads. With coroutines it ends all requests
    of a worker, of which most are well. With `threads` it may end none."""
    kind, limit = figures.server.setup.concurrency_kind, figures.server.setup.options.harakiri
    has_threads = (figures.configured or 0) > len(figures.server.workers)
    is_reset = bool(limit and figures.stuck_seconds > limit and has_threads and kind not in ("async", None))
    return {
        "harakiri": kind not in ("async", None) and not is_reset,
        "reset": is_reset and limit,
        "long": kind != "async",
    }


def find_growing_memory(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that keep ever more memory, unless workers ended in the window: a limit may do that."""
    growths, options = _find_growths(figures), figures.server.setup.options
    if not growths or figures.window.respawns > _count_started(figures):
        return
    ids, most = [worker.worker_id for worker in growths], max(growths, key=lambda worker: growths[worker])
    limit = options.reload_on_rss or options.evil_reload_on_rss
    yield MEMORY_GROWS.found(
        figures,
        ids=ids,
        most=most.worker_id,
        size=most.resident_bytes or 0,
        growth=most.resident_growth or 0,
        seconds=figures.window.seconds,
        limit=limit or None,
        option="reload-on-rss" if options.reload_on_rss else "evil-reload-on-rss",
    )


def _find_growths(figures: Figures) -> dict[WorkerWindow, int | float]:
    """The workers that keep more memory between requests than before, by so many bytes."""
    part, least = GROWTH
    lows = {worker.worker_id: worker.low_bytes for worker in figures.server.workers}
    growths = {
        worker: worker.resident_growth - max(0, worker.resident_bytes - (lows.get(worker.worker_id) or math.inf))
        for worker in figures.window.workers
        if worker.resident_growth is not None and worker.resident_bytes and not worker.respawns
    }
    return {worker: each for worker, each in growths.items() if each >= max(least, part * (worker.resident_bytes or 0))}


def _count_started(figures: Figures) -> int:
    """The workers that were started in the window in a slot that had none before, as by cheaper mode."""
    ages = {each.worker_id: (figures.server.time or 0.0) - (each.last_spawn or 0) for each in figures.server.workers}
    return sum(
        worker.respawns == 1 and worker.up_seconds <= ages.get(worker.worker_id, 0.0) + 1
        for worker in figures.window.workers
    )


def find_growing_threads(figures: Figures) -> Iterator[Finding]:
    """The finding about threads that the application starts and that do not end."""
    (many, least), (near, part), tasks = THREADS, NEAR_TASKS, figures.server.tasks
    serving = {worker.worker_id: worker.threads or 1 for worker in figures.server.workers}
    others = {
        worker: worker.process_threads - serving.get(worker.worker_id, 1)
        for worker in figures.window.workers
        if worker.process_threads is not None
    }
    growing = [
        worker
        for worker, number in others.items()
        if number >= many and (worker.threads_growth or 0) >= least and not worker.respawns
    ]
    is_near = tasks is not None and tasks.used >= near * tasks.most and sum(others.values()) >= part * tasks.used > 0
    if growing or is_near:
        worst, ids = max(growing or others, key=lambda worker: others[worker]), [each.worker_id for each in growing]
        facts = _describe_threads(figures, worst, growing) | {"serve": serving.get(worst.worker_id, 1)}
        yield THREADS_GROW.found(figures, facts, ids=ids) if growing else THREADS_NEAR_LIMIT.found(figures, facts)


def _describe_threads(figures: Figures, worst: WorkerWindow, growing: Sequence[WorkerWindow]) -> Facts:
    """What the worker with most threads has, how near the limit of processes is, and when it is reached."""
    tasks, seconds = figures.server.tasks, figures.window.seconds
    grown = sum(worker.threads_growth or 0 for worker in growing)
    return {
        "worst": worst.worker_id,
        "threads": worst.process_threads,
        "growth": worst.threads_growth or None,
        "seconds": seconds,
        "most": tasks and tasks.most,
        "used": tasks and tasks.used,
        "left": max(0, tasks.most - tasks.used) * seconds / grown if tasks and grown else None,
    }
