"""Finds the workers that ended in a window, and whether a reload, cheaper mode or an option explains it."""

from __future__ import annotations

from itertools import pairwise

from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.record.options import Options

FEWEST = 3
"""The fewest workers whose times show a reload: three that crash end in the order of a chain reload in one of six
cases, two in half of them."""

AT_ONCE_SECONDS = 2
"""The longest time between the first and the last new process of workers that are reloaded at once. A worker with a
request in service is replaced when that has ended."""

Ends = list[tuple[int, int, int]]
"""Id, ends and requests of each worker that ended."""


def find_ends(figures: Figures) -> Ends:
    """The workers that were respawned, other than by full reloads."""
    reloads = figures.window.reloads
    return [
        (worker.worker_id, worker.respawns - reloads, worker.requests)
        for worker in figures.window.workers
        if worker.respawns > reloads
    ]


def find_unexplained_ends(figures: Figures) -> Ends:
    """The ended workers, if nothing explains their ends: no option, harakiri, cheaper mode, or reload (which ends each
    worker equally often, or each in its turn)."""
    ended = find_ends(figures)
    reloaded = len(ended) == len(figures.window.workers) > 1 and len({times for _, times, _ in ended}) == 1
    explained = (
        reloaded
        or are_reloaded(figures, ended)
        or scales(figures)
        or figures.window.harakiris
        or not _is_unexplained(figures.server.setup.options)
    )
    return [] if explained else ended


def are_reloaded(figures: Figures, ended: Ends) -> bool:
    """Whether the workers were replaced as in a reload of all workers, of which the window may have a part: at once,
    or one after another in the order of their numbers; without a lost request, and none more than once more often
    than another. False if no option allows for one."""
    workers = figures.window.workers
    options = figures.server.setup.options
    if options.complete and not options.can_reload_workers:
        return False
    if len(ended) < FEWEST or any(worker.lost for worker in workers):
        return False
    times = {worker_id: count for worker_id, count, _ in ended}
    if max(times.values()) - min(times.get(worker.worker_id, 0) for worker in workers) > 1:
        return False
    spawned = {worker.worker_id: worker.last_spawn or 0 for worker in figures.server.workers}
    order = sorted(times, key=lambda worker_id: spawned.get(worker_id, 0))
    at_once = spawned.get(order[-1], 0) - spawned.get(order[0], 0) <= AT_ONCE_SECONDS
    return at_once or all(later == earlier % len(workers) + 1 for earlier, later in pairwise(order))


def scales(figures: Figures) -> bool:
    """Whether cheaper mode may have ended and spawned workers. At its ceiling no worker is in reserve."""
    in_reserve = any(worker.state == "reserve" for worker in figures.server.workers)
    return in_reserve or bool(figures.server.setup.options.cheaper)


def _is_unexplained(options: Options) -> bool:
    """Whether all options are known and none of them ends healthy workers."""
    if not options.complete:
        return False
    ends = (options.max_requests, options.max_worker_lifetime, options.reload_on_rss, options.reload_on_as)
    return not any((*ends, options.evil_reload_on_rss))
