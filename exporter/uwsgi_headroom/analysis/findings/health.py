"""Findings about requests that are stuck, and about growing memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from uwsgi_headroom.analysis.advice import find_blocking_call
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.littles_law import shows_a_limit
from uwsgi_headroom.analysis.routes import describe_stuck_route
from uwsgi_headroom.analysis.worker_states import (
    ASYNC,
    MANY_STUCK,
    fill_cores,
    find_harmful_requests,
    name_slots,
    print_pids,
    show_calls,
)
from uwsgi_headroom.history.window import WorkerWindow
from uwsgi_headroom.record import Options
from uwsgi_headroom.words.formats import byte_size, chosen, duration, numbered

GROWTH = (0.10, 16e6)
"""Growth of resident memory within a window is a finding at or above this fraction and this number of bytes."""

THREADS = (100, 4)
"""From this number of threads that serve no request on, in one worker, this growth within a window is a finding. Usual
pools are smaller (a `ThreadPoolExecutor` has 32 threads at most, gevent's pool has 10), and stop growing."""

NEAR_TASKS = (0.8, 0.5)
"""How much of `pids.max` has to be in use, and how much of that by threads that serve no request."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about growing memory, and about threads that do not end."""
    yield from _growing(figures)
    yield from _growing_threads(figures)


def find_stuck(figures: Figures) -> Iterator[Finding]:
    """The finding about stuck requests: they explain why others wait."""
    requests, seconds = find_harmful_requests(figures), figures.stuck_seconds
    if requests:
        oldest, worst = requests[0]
        affected = sorted({worker_id for _, worker_id in requests})
        slots, are_many = name_slots(figures.server), len(requests) >= MANY_STUCK * (figures.ceiling or math.inf)
        yield Finding(
            code="request_stuck",
            severity="critical" if are_many and (slots != ASYNC or shows_a_limit(figures.flow)) else "warning",
            title=f"Requests have been in service for longer than {chosen(seconds)}.",
            evidence=(
                f"1 request is stuck in worker {worst}: it has been in service for {duration(oldest)}."
                if len(requests) == 1
                else f"{len(requests)} requests are stuck, the oldest for {duration(oldest)}, in "
                f"{numbered('worker', affected)}."
            )
            + describe_stuck_route(figures.routes, figures.server, seconds),
            meaning=_what_they_hold(figures),
            clause="stuck requests hold the " + slots if are_many else "",
            change=find_blocking_call(figures.server)
            if slots == ASYNC and not fill_cores(figures)
            else f"{_see_or_restart(figures, worst, affected, are_many=are_many)}. Then set timeouts on the calls that "
            f"the application makes{_last_resort(figures)}",
        )


def _see_or_restart(figures: Figures, worst: int, affected: Sequence[int], *, are_many: bool) -> str:
    """What to do first: where stuck requests hold many threads, users wait for those."""
    see = show_calls(figures.server, worst)
    if not are_many:
        return f"Run {see} to see what the stuck request waits for"
    command = f"the command that {print_pids(figures, affected)} prints"
    return f"Run {see} to see what the stuck requests wait for, then restart their workers with {command}"


def _what_they_hold(figures: Figures) -> str:
    if name_slots(figures.server) != ASYNC:
        return (
            "Each stuck request holds a thread that other requests need. uWSGI includes a request in its response "
            "times only after the request has ended."
        )
    if fill_cores(figures):
        return "Each stuck request holds an async core, and hardly any async cores are free."
    return (
        "Async cores are free, but no request is completed: a call may block a worker and all of its requests. In "
        "workers that are not blocked, open requests may be normal: event streams, for example, stay open on purpose."
    )


def _last_resort(figures: Figures) -> str:
    """The end of the advice: `harakiri` only where it ends one request, or those of a few threads. With coroutines it
    ends all requests of a worker, of which most are well."""
    kind = figures.server.setup.concurrency_kind
    if kind == "async":
        return ". If these requests stay open on purpose, raise `gevent` (or `async`)."
    if kind is None:
        return ". If these requests are expected to take this long, raise the option `--stuck` of uwsgi-headroom."
    limit = figures.server.setup.options.harakiri
    if limit and figures.stuck_seconds > limit and (figures.configured or 0) > len(figures.server.workers):
        return (
            f". `harakiri` ({limit} s) does not end these requests: with `threads`, a worker has only one timer, and "
            "each further request of the worker resets it. If these requests are expected to take this long, raise the "
            "option `--stuck` of uwsgi-headroom."
        )
    return (
        ", and set `harakiri` as the last resort. If these requests are expected to take this long, raise the option "
        "`--stuck` of uwsgi-headroom."
    )


def _bound_memory(options: Options) -> str:
    """What bounds a leak: a limit of memory that is set already, or one to set."""
    limit = options.reload_on_rss or options.evil_reload_on_rss
    if not limit:
        either = "`reload-on-rss`" if options.max_requests else "`reload-on-rss` or `max-requests`"
        return f"If the memory keeps growing, set {either} as a limit until you have found the leak."
    option = "reload-on-rss" if options.reload_on_rss else "evil-reload-on-rss"
    return (
        f"uWSGI ends a worker that reaches {limit} MB (`{option}`): make sure that all workers fit into memory at this "
        "size. If each new process also grows, find out what the application keeps in memory."
    )


def _growing(figures: Figures) -> Iterator[Finding]:
    """The finding about workers that keep ever more memory, unless workers ended in the window: a limit may do that."""
    part, least = GROWTH
    lows = {worker.worker_id: worker.low_bytes for worker in figures.server.workers}
    growths = {
        worker: worker.resident_growth - max(0, worker.resident_bytes - (lows.get(worker.worker_id) or math.inf))
        for worker in figures.window.workers
        if worker.resident_growth is not None and worker.resident_bytes and not worker.respawns
    }
    growing = [
        worker for worker, growth in growths.items() if growth >= max(least, part * (worker.resident_bytes or 0))
    ]
    if growing and figures.window.respawns <= _count_started(figures):
        most = max(growing, key=lambda worker: growths[worker])
        yield Finding(
            code="memory_growing",
            severity="warning",
            title=f"The memory of {numbered('worker', [worker.worker_id for worker in growing])} is growing.",
            evidence=f"Worker {most.worker_id} now takes {byte_size(most.resident_bytes or 0)}, which is "
            f"{byte_size(most.resident_growth or 0)} more than {duration(figures.window.seconds)} ago.",
            meaning="Soon after a start, the reason may be that the application fills its caches. If the memory keeps "
            "growing, the application has a leak.",
            change=_bound_memory(figures.server.setup.options),
        )


def _count_started(figures: Figures) -> int:
    """The workers that were started in the window in a slot that had none before, as by cheaper mode."""
    ages = {each.worker_id: (figures.server.time or 0.0) - (each.last_spawn or 0) for each in figures.server.workers}
    return sum(
        worker.respawns == 1 and worker.up_seconds <= ages.get(worker.worker_id, 0.0) + 1
        for worker in figures.window.workers
    )


def _growing_threads(figures: Figures) -> Iterator[Finding]:
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
    if not growing and not is_near:
        return
    worst = max(growing or others, key=lambda worker: others[worker])
    serve, ids = serving.get(worst.worker_id, 1), [worker.worker_id for worker in growing]
    yield Finding(
        code="threads_growing",
        severity="warning",
        title=f"{numbered('Worker', ids)} {'keeps' if len(ids) == 1 else 'keep'} starting threads that do not end."
        if growing
        else "The workers' threads use up most of the limit of processes and threads.",
        evidence=f"Worker {worst.worker_id} has {worst.process_threads:,} threads"
        f"{_describe_growth(figures, worst)}, and {serve} of them {'serves' if serve == 1 else 'serve'} requests."
        f"{_describe_limit(figures, growing)}",
        meaning="Each thread takes memory. When a limit of processes (`pids.max`, `ulimit -u`) or of memory is "
        "reached, the application gets `can't start new thread`, and the request fails.",
        change="Create one pool of threads in each worker, instead of one for each request, and make sure that "
        "all threads outside of this pool end."
        if growing
        else "Raise the limit of processes (`TasksMax` of the unit, `pids.max` of the container), or let the "
        "application start fewer threads.",
    )


def _describe_growth(figures: Figures, worker: WorkerWindow) -> str:
    if worker.threads_growth is None:
        return ""
    before = (worker.process_threads or 0) - worker.threads_growth
    return f" ({duration(figures.window.seconds)} ago: {before:,})"


def _describe_limit(figures: Figures, growing: Sequence[WorkerWindow]) -> str:
    """How near the limit of processes is, and when it is reached, as a sentence."""
    tasks, grown = figures.server.tasks, sum(worker.threads_growth or 0 for worker in growing)
    if tasks is None:
        return ""
    left = max(0, tasks.most - tasks.used)
    when = f"; at this rate, none is left in {duration(left * figures.window.seconds / grown)}" if grown else ""
    return f" Of the {tasks.most:,} processes and threads that `pids.max` permits, {tasks.used:,} are in use{when}."
