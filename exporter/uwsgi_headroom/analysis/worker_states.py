"""Finds the workers and slots that cannot serve as they should: down, paused, ended, stuck, pinned to one CPU."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from uwsgi_headroom.analysis.figures import Figures, count_ceiling
from uwsgi_headroom.analysis.littles_law import is_standing, ratio
from uwsgi_headroom.analysis.wait_states import count_websockets, list_ages
from uwsgi_headroom.config.defaults import STUCK_SECONDS
from uwsgi_headroom.record import Options, ServerRecord, Setup, WorkerRecord
from uwsgi_headroom.same_fields import given
from uwsgi_headroom.words.formats import name_pids
from uwsgi_headroom.words.template import Private

AWAY = 0.15
"""If workers are down for this fraction of the time, that is why capacity is short."""


def show_calls(server: ServerRecord, worker_id: int | None = None) -> str:
    """The command that shows what the threads of a worker do, in backticks: of this one, or of the busiest one."""
    workers = [worker for worker in server.workers if worker_id in (None, worker.worker_id)]
    busiest = max(workers, key=lambda worker: len(worker.ages), default=None)
    return f"`py-spy dump --pid {name_pids([busiest.local_pid if busiest else None])}`"


def see_calls(server: ServerRecord, worker_id: int | None = None) -> Private:
    """The same as a fact."""
    return Private(show_calls(server, worker_id), "`py-spy dump --pid PID`")


def list_programs(server: ServerRecord, worker_id: int) -> Private:
    """The command that lists the programs that a worker's requests started, and where the kernel keeps them."""
    pid = name_pids(worker.local_pid for worker in server.workers if worker.worker_id == worker_id)
    return Private(f"`ps --ppid {pid} -o pid,etime,wchan:16,args`", "`ps --ppid PID`")


def kill(signal: str, workers: Iterable[WorkerRecord]) -> str:
    """The command that sends a signal to workers, in backticks."""
    return f"`kill -{signal} {name_pids(worker.local_pid for worker in workers)}`"


def end(server: ServerRecord, workers: Iterable[WorkerRecord]) -> str:
    """The command that ends workers at once: with coroutines, SIGTERM acts only when the event loop goes on."""
    return kill("KILL" if name_slots(server) == ASYNC else "TERM", workers)


def find_outside_holder(server: ServerRecord) -> int | None:
    """The PID of the process that holds the lock for which requests wait, if it is known to be no worker."""
    if server.sample.uwsgi_lock_holder:
        return server.sample.uwsgi_lock_holder.pid
    pids, holder = {worker.local_pid for worker in server.workers if worker.pid}, server.sample.file_lock_holder
    return None if holder in pids or None in pids else holder


def print_pids(figures: Figures, workers: Sequence[int]) -> str:
    """The command that prints how to restart these workers, which are named where `--stuck` is not the default."""
    server = shlex.quote(figures.server.address.removeprefix("unix://") or "NAME")
    which = "--stuck" if figures.stuck_seconds == STUCK_SECONDS else f"--worker {','.join(map(str, workers))}"
    return f"`uwsgi-headroom pids {server} {which}`"


def part_away(figures: Figures) -> float | None:
    """The fraction of a window in which workers were down; None if unknown, or if cheaper mode may be the reason."""
    options = figures.server.setup.options
    if not options.complete or options.cheaper:
        return None
    up = [worker.up_seconds for worker in figures.window.workers]
    part = ratio(sum(up), figures.window.observed_seconds * len(up))
    return given(part, lambda part: max(0.0, 1 - part))


def find_without_application(server: ServerRecord) -> tuple[list[WorkerRecord], list[WorkerRecord]] | None:
    """The accepting workers, and those without a loaded application; None if no application is known."""
    if not server.setup.options.names_application or any(each.has_application is None for each in server.workers):
        return None
    accepting = [worker for worker in server.workers if worker.state == "accepting" and not worker.ended]
    return accepting, [worker for worker in accepting if not worker.has_application]


FEWEST = 3
"""The fewest workers whose times show a reload: three that crash end in this order in one of six
cases, two in half of them."""

AT_ONCE_SECONDS = 2
"""The longest time between the first and the last new process of workers that are reloaded at once. A worker with a
request in service is replaced when that has ended."""

TURN_SECONDS = 60.0
"""The longest time between the new processes of two neighbours in a chain reload: one loads the application, and the
other ends its request."""

UNDER_WAY_SECONDS = 10.0
"""For so long after the last new process the next worker may still follow."""

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


def count_respawns(figures: Figures) -> int:
    """The ends of workers that `harakiri` does not explain."""
    return sum(times for _, times, _ in find_ends(figures)) - figures.window.harakiris


def count_lost(figures: Figures) -> int:
    """The requests that were lost with workers that ended, at least."""
    return sum(worker.lost for worker in figures.window.workers)


def mean_life(figures: Figures) -> float:
    """How many seconds a worker lives on average; infinite if none ended."""
    lived = figures.window.seconds * len(figures.window.workers)
    return ratio(lived, count_respawns(figures)) or math.inf


def find_unexplained_ends(figures: Figures) -> Ends:
    """The ended workers, if nothing explains their ends: no option, harakiri, cheaper mode, or reload."""
    ended, options = find_ends(figures), figures.server.setup.options
    reloaded = len(ended) == len(figures.window.workers) > 1 and len({times for _, times, _ in ended}) == 1
    limits = (options.max_requests, options.max_worker_lifetime, options.reload_on_rss, options.reload_on_as)
    is_limited = not options.complete or any((*limits, options.evil_reload_on_rss, options.ends_workers))
    reloaded = reloaded or are_reloaded(figures) or are_stopped_when_idle(figures)
    return ended * (not (is_limited or reloaded or scales(figures) or figures.window.harakiris))


def are_reloaded(figures: Figures) -> bool:
    """Whether the workers were replaced as in a reload of all workers: at once, or one after another; without a lost
    request, and none more than once more often than another. False if no option allows for one. Of one or two workers,
    that shows in the others, just before or after them."""
    workers, ended, options = figures.window.workers, find_ends(figures), figures.server.setup.options
    if count_lost(figures) or (options.complete and not options.can_reload_workers):
        return False
    if len(ended) < FEWEST:
        return all(count == 1 for _, count, _ in ended) and _begin_or_end_a_reload(figures.server, ended)
    times = {worker_id: count for worker_id, count, _ in ended}
    if max(times.values()) - min(times.get(worker.worker_id, 0) for worker in workers) > 1:
        return False
    spawned = {worker.worker_id: worker.last_spawn or 0 for worker in figures.server.workers}
    order = sorted(times, key=lambda worker_id: spawned.get(worker_id, 0))
    at_once = spawned.get(order[-1], 0) - spawned.get(order[0], 0) <= AT_ONCE_SECONDS
    return at_once or all(later == earlier % len(workers) + 1 for earlier, later in pairwise(order))


RECYCLED = 0.7
"""A worker that served at least this fraction of `max-requests`, which `max-requests-delta` varies, has reached it."""


def reach_max_requests(figures: Figures) -> bool:
    """Whether the workers that ended serve so many requests that `max-requests` ends them as often as they ended."""
    most, served = figures.server.setup.options.max_requests, sum(requests for _, _, requests in find_ends(figures))
    return bool(most) and 0 < RECYCLED * (most or 0) * count_respawns(figures) / 2 <= served


def are_reloaded_at_once(figures: Figures) -> bool:
    """Whether a reload of all workers, none of which is left out, replaced them together."""
    spawned = [worker.last_spawn or 0 for worker in figures.server.workers]
    return len(find_ends(figures)) == len(spawned) > 1 and max(spawned) - min(spawned) <= AT_ONCE_SECONDS


def starts_on_demand(options: Options) -> bool:
    """Whether uWSGI has no worker until a request comes, or when none has come for some time."""
    return bool(options.idle or options.cheap) and not options.cheaper


def are_stopped_when_idle(figures: Figures) -> bool:
    """Whether the workers were started only on demand, and stopped all together, without a loss, no more often than
    `idle` allows for."""
    workers, options = figures.window.workers, figures.server.setup.options
    ends, most = {worker.respawns for worker in workers}, 1 + figures.window.seconds / (options.idle or math.inf)
    return starts_on_demand(options) and len(ends) == 1 and max(ends) <= most and not any(each.lost for each in workers)


def _begin_or_end_a_reload(server: ServerRecord, ended: Ends) -> bool:
    workers, spawned = [each.worker_id for each in server.workers], [each.last_spawn or 0 for each in server.workers]
    ids, number = [worker_id for worker_id, _, _ in ended], len(ended)
    if ids == workers[-number:]:
        return all(0 <= later - earlier <= TURN_SECONDS for earlier, later in pairwise(spawned))
    last = server.workers[number - 1]
    is_recent = server.time is not None and server.time - spawned[number - 1] <= UNDER_WAY_SECONDS
    return ids == workers[:number] and (is_recent or last.state == "down")


def scales(figures: Figures) -> bool:
    """Whether cheaper mode may have ended and spawned workers. At its ceiling no worker is in reserve."""
    in_reserve = any(worker.state == "reserve" for worker in figures.server.workers)
    return in_reserve or bool(figures.server.setup.options.cheaper)


ASYNC = "async cores"

ASYNC_FULL = 0.9
"""Async cores are scarce if at least this fraction of them is in use. uWSGI then spins, like a busy worker."""


def name_slots(server: ServerRecord, number: int = 2) -> str:
    """The name of so many slots in texts: `threads`, or `async cores` with gevent and the like."""
    name = ASYNC if server.setup.concurrency_kind == "async" else "threads"
    return name if number != 1 else name.removesuffix("s")


MANY_STUCK = 0.5
"""If at least this fraction of the threads is stuck, many requests find no free thread."""

SOME_STUCK = 0.25
"""The same while requests wait: to end the stuck ones then comes before more threads."""


def find_harmful_requests(figures: Figures) -> list[tuple[float, int]]:
    """Age and worker id of the stuck requests that take what others need, oldest first. WebSockets are not stuck, and
    event streams are not."""
    are_harmful = name_slots(figures.server) != ASYNC or is_standing(figures.flow) or fill_cores(figures)
    stuck = sorted(_list_stuck(figures.server, figures.stuck_seconds), reverse=True)
    return stuck * (are_harmful and len(stuck) > count_websockets(figures.server, len(stuck)))


def _list_stuck(server: ServerRecord, seconds: float) -> list[tuple[float, int]]:
    return [(age, worker_id) for age, worker_id in list_ages(server) if age >= seconds]


def count_harmful_now(server: ServerRecord, stuck_seconds: float) -> int:
    """The number of stuck requests at one instant, by `find_harmful_requests` without a window."""
    stuck, used = len(_list_stuck(server, stuck_seconds)), sum(len(worker.ages) for worker in server.workers)
    if name_slots(server) != ASYNC:
        return stuck * (stuck > count_websockets(server, stuck))
    return stuck * (used >= ASYNC_FULL * (count_ceiling(server.workers) or math.inf) > used - stuck)


def fill_cores(figures: Figures) -> bool:
    """Whether hardly any async core is free, because of stuck requests."""
    stuck, used = len(_list_stuck(figures.server, figures.stuck_seconds)), figures.flow.observed or 0.0
    return used >= ASYNC_FULL * (figures.ceiling or math.inf) > used - stuck


def count_workers_sharing_one_cpu(server: ServerRecord) -> int:
    """How many workers are pinned to a single CPU together with another, but for an inherited mask."""
    masks = [worker.affinity for worker in server.workers]
    pinned = Counter(mask for mask in masks if mask and len(mask) == 1 and mask != server.master_affinity)
    return sum(workers for workers in pinned.values() if workers > 1)


def count_workers_with_own_sockets(setup: Setup) -> int | None:
    """How many workers have sockets of their own alone; None if unknown."""
    if not setup.mapped or not setup.socket_holders:
        return None
    alone, sharing = set[int](), set[int]()
    for workers in setup.socket_holders.values():
        (alone if len(workers) == 1 else sharing).update(workers)
    return len(alone - sharing)
