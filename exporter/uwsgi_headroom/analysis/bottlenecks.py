"""Finds what makes requests wait that more threads do not remove, and what to do about it.

Each reason rests on positive evidence: a state of the threads that was measured, a counter, an option. What helps where
there is none is in `advice`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from uwsgi_headroom.analysis.backends import Saturation
from uwsgi_headroom.analysis.capacity import fits
from uwsgi_headroom.analysis.destinations import UNKNOWN, list_main
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import is_standing, shows_a_limit
from uwsgi_headroom.analysis.log_words import ENDS, STARTS, see_log
from uwsgi_headroom.analysis.shortages import CPU_FULL, find_cpu_of_own_threads, list_loads, mean_load
from uwsgi_headroom.analysis.sizing import count_needed_threads
from uwsgi_headroom.analysis.wait_states import MOSTLY, wait_for_websockets
from uwsgi_headroom.analysis.worker_states import (
    AWAY,
    MANY_STUCK,
    are_reloaded,
    are_reloaded_at_once,
    are_stopped_when_idle,
    count_lost,
    find_ends,
    name_slots,
    part_away,
    reach_max_requests,
    show_calls,
    starts_on_demand,
)
from uwsgi_headroom.words.formats import name_pids, percent
from uwsgi_headroom.words.template import Fact, fill

INTERPRETERS_BUSY = 0.45
"""Above this mean load of the interpreters, more threads would mostly wait for their interpreter."""

MOSTLY_BUSY = 0.75
"""Below this mean fraction of busy threads, threads are free; requests that wait nevertheless may have a reason of
their own."""

WORKER_FULL = 0.9
"""At or above this mean fraction of its busy threads, a worker leaves requests of its own sockets waiting."""

Settings = tuple[tuple[str, int], ...]
"""Options of uWSGI, and the number that an advice sets each to."""


class Advice(NamedTuple):
    """A change, the options of uWSGI that it sets to a number, and the requests per second that it serves at least."""

    change: str
    settings: Settings = ()
    serves: float | None = None
    cause: str = ""
    """What is short, as a clause; empty if no evidence shows that the change helps."""
    all_busy: bool = False
    """Whether it says that all threads, async cores or interpreters are busy: no cause while some are free."""


class Reason(NamedTuple):
    """A row of templates: why requests wait, as a clause; the first thing to do about it; and what else."""

    cause: str
    act: str
    then: str = ""

    def advise(self, settings: Settings = (), *, all_busy: bool = False, **facts: Fact) -> Advice:
        """What to do about it, with these facts."""
        change = fill(f"{self.act} {self.then}", facts).strip()
        return Advice(change, settings, cause=fill(self.cause, facts), all_busy=all_busy)


FORK = "[lazy? Alternatively, remove `lazy-apps`: uWSGI then loads the application once, before it forks the workers.]"
_CHAIN_RELOAD = "a chain reload (`lazy-apps` and `touch-chain-reload`): it replaces one worker after another."
_LOAD_FASTER = "let the application load faster: each worker was down for {each:duration}."
WORKERS_DOWN = Reason("workers are down part of the time", "{look}")
STOPPED_WHEN_IDLE = Reason(
    "uWSGI stops its workers when it is idle",
    "Remove `idle`, or raise it: after {idle:plain} s without a request, uWSGI stops all workers, and the next request "
    "waits for one.",
    FORK,
)
STARTED_ON_DEMAND = Reason(
    "uWSGI does not start its workers before a request comes",
    "Remove `cheap`, so that the workers start before the first request.",
    FORK,
)
REACH_MAX_REQUESTS = Reason(
    "workers that reach `max-requests` are down for long",
    "Raise `max-requests` from {max_requests:plain}, so that workers are replaced less often, or " + _LOAD_FASTER,
)
RELOADED_AT_ONCE = Reason("all workers were reloaded at once", f"Use {_CHAIN_RELOAD}")
RELOADED_IN_TURN = Reason(
    "while a chain reload replaces a worker, the others are too few",
    "Raise `processes` from {processes:plain} to {more:plain} ({room}): as many workers as now then serve requests "
    "while one is replaced. Alternatively, reload when there are fewer requests, or " + _LOAD_FASTER,
)
ONLY_WORKER_RELOADED = RELOADED_IN_TURN._replace(cause="while the only worker is reloaded, nothing serves requests")
RELOADED = Reason(
    "uWSGI was reloaded", f"If requests waited while a full reload loaded the application, use {_CHAIN_RELOAD}"
)
RELOADED_AGAIN = Reason(
    "uWSGI is reloaded again and again",
    "Find out what reloads uWSGI: SIGHUP, `master-fifo`, or a file that is touched.",
    "The file is the one of `touch-reload`, or a module that `py-autoreload` watches. At each reload, requests wait.",
)
SOCKETS_OF_THEIR_OWN = Reason(
    "a worker with sockets of its own has no free thread",
    "Let the web server spread the load evenly over the sockets of `map-socket`, or remove `map-socket`.",
)
CHEAPER_IS_LATE = Reason(
    "cheaper mode does not start more workers",
    "[all? Remove `cheaper`, so that all workers run][count? Raise `cheaper`][initial?  and `cheaper-initial`][count?  "
    "to {count:plain}]: cheaper mode spawns workers too late.",
)
DO_NOT_END = Reason(
    "the requests in service do not end, and hold the {slots}",
    "Run {calls} to see what the requests in service wait for: none was completed, and more {slots} would also wait.",
)
KEPT_CONNECTIONS = Reason(
    "clients that keep connections open hold the threads between requests",
    "Let a web server, or uWSGI's `http` router with `http-keepalive`, hold the connections of clients.",
    "With `http11-socket`, each connection holds a thread until it is closed; `http-socket` closes it at once.",
)
STAY_OPEN = Reason(
    "connections that stay open, such as WebSockets, hold the threads",
    "Serve these connections from a uWSGI of their own with `gevent`.",
    "There, each takes only an async core. Or raise `threads` by as many as stay open: nothing can buffer them.",
)
SLOW_CLIENTS = Reason(
    "slow clients hold the threads",
    "Let the web server in front of uWSGI buffer requests and responses, as nginx does by default.",
    "If you add threads, slow clients will also hold the new threads. WebSockets also wait for clients, and nothing "
    "can buffer them: serve them from a uWSGI of their own with `gevent`.",
)
OWN_THREADS_COMPUTE = Reason(
    "threads that serve no request use most of the workers' CPU time",
    "Run `top -H -p {pid}` to find the threads that serve no request.",
    "`py-spy dump --pid {pid}` shows what they do. Move their work into a mule or the spooler; if a library computes "
    "in threads, limit their number (`OMP_NUM_THREADS`).",
)

UNREACHABLE = (
    "`map-socket` gives workers sockets of their own: a free thread cannot take a request from the socket of another "
    "worker."
)
"""What such sockets mean."""

AGAIN_AND_AGAIN = 3
"""From so many full reloads in a window on, it matters what reloads uWSGI, more than how."""


def find_bottleneck(figures: Figures) -> Advice | None:
    """What makes requests wait, the first of several; None if the server may lack only threads or interpreters."""
    reasons = (bring_workers_back, why_free_threads_do_not_serve, _find_requests_without_end, _explain_clients, _own)
    return next(filter(None, (reason(figures) for reason in reasons)), None)


def bring_workers_back(figures: Figures) -> Advice | None:
    """What to do first, if workers are down part of the time."""
    away, options = part_away(figures) or 0.0, figures.server.setup.options
    if away < AWAY and not _lacks_the_replaced(figures, away):
        return None
    if are_stopped_when_idle(figures):
        reason = STOPPED_WHEN_IDLE if options.idle else STARTED_ON_DEMAND
        return reason.advise(idle=options.idle, lazy=options.lazy_apps)
    if known := _explain_replacement(figures, away):
        return known
    why = f"the reason why workers are down {percent(away)} of the time"
    return None if away < AWAY else WORKERS_DOWN.advise(look=see_log(figures.server, why, (*ENDS, *STARTS)))


def _lacks_the_replaced(figures: Figures, away: float) -> bool:
    """Whether requests wait because one worker after another is away, although all together have threads to spare."""
    processes, threads, busy = len(figures.window.workers), figures.ceiling or 0, figures.flow.observed or 0.0
    left = threads * (processes - 1) / max(1, processes)
    is_long = processes * away >= AWAY and not figures.window.reloads
    return is_long and MOSTLY_BUSY * left <= busy < WORKER_FULL * threads and shows_a_limit(figures.flow)


def _explain_replacement(figures: Figures, away: float) -> Advice | None:
    ended, log, processes = find_ends(figures), figures.server.log, len(figures.window.workers)
    is_lossy = figures.window.harakiris or count_lost(figures)
    if is_lossy or (log and any(code in log.messages for code in ENDS)):
        return None
    if not ended:
        return find_reload(figures) if figures.window.reloads else None
    each = away * figures.window.observed_seconds * processes / sum(times for _, times, _ in ended)
    if reach_max_requests(figures):
        return REACH_MAX_REQUESTS.advise(max_requests=figures.server.setup.options.max_requests, each=each)
    if not are_reloaded(figures, ended):
        return None
    if are_reloaded_at_once(figures):
        return RELOADED_AT_ONCE.advise()
    more, room = processes + 1, fits(figures.server.memory, 1)
    reason = RELOADED_IN_TURN if processes > 1 else ONLY_WORKER_RELOADED
    return reason.advise((("processes", more),), processes=processes, more=more, room=room, each=each)


def find_reload(figures: Figures) -> Advice:
    return (RELOADED_AGAIN if figures.window.reloads >= AGAIN_AND_AGAIN else RELOADED).advise()


def why_free_threads_do_not_serve(figures: Figures) -> Advice | None:
    """What to do if requests wait although threads are free, for a known reason."""
    if not waits_while_threads_are_free(figures):
        return None
    if _is_mapped_to_a_full_worker(figures):
        return SOCKETS_OF_THEIR_OWN.advise()
    return find_reload(figures) if waits_for_a_reload(figures) else spawn_earlier(figures)


def spawn_earlier(figures: Figures) -> Advice | None:
    """What to do if cheaper mode keeps workers in reserve while requests wait."""
    workers, options, each = figures.server.workers, figures.server.setup.options, figures.threads_each
    up = sum(worker.state != "reserve" for worker in workers)
    if up == len(workers) or not each or starts_on_demand(options):
        return None
    count = min(len(workers) - 1, max(up, math.ceil((count_needed_threads(figures) or 0.0) / each)))
    if count <= (options.cheaper or 0):
        return CHEAPER_IS_LATE.advise(all=True, count=None, initial=False)
    names = ("cheaper",) if count <= (options.cheaper_initial or 0) else ("cheaper", "cheaper-initial")
    settings = tuple((name, count) for name in names)
    return CHEAPER_IS_LATE.advise(settings, all=False, count=count, initial=len(names) > 1)


def waits_for_a_reload(figures: Figures) -> bool:
    """Whether requests wait although threads are free and workers are up, most likely for a full reload."""
    if not figures.window.reloads or is_standing(figures.flow) or not waits_while_threads_are_free(figures):
        return False
    return not (_is_mapped_to_a_full_worker(figures) or bring_workers_back(figures))


def waits_while_threads_are_free(figures: Figures) -> bool:
    """Whether requests wait although a part of the threads is free."""
    flow, _ = figures.longest_wait
    return shows_a_limit(flow) and (figures.flow.observed or 0.0) < MOSTLY_BUSY * (figures.ceiling or 0)


def _is_mapped_to_a_full_worker(figures: Figures) -> bool:
    if not figures.server.setup.mapped:
        return False
    threads = {worker.worker_id: worker.threads for worker in figures.server.workers}
    return any(
        (worker.concurrency or 0.0) >= WORKER_FULL * (threads.get(worker.worker_id) or math.inf)
        for worker in figures.balance.workers
    )


def _find_requests_without_end(figures: Figures) -> Advice | None:
    if not is_standing(figures.flow) or (figures.flow.observed or 0.0) < MANY_STUCK * (figures.ceiling or 0):
        return None
    return DO_NOT_END.advise(slots=name_slots(figures.server), calls=show_calls(figures.server))


def connections_hold_threads(figures: Figures) -> bool:
    """Whether clients that keep their connections hold threads that are free by uWSGI's count (`http11-socket`)."""
    return figures.share("client") >= MOSTLY and waits_while_threads_are_free(figures)


def killed_fill_threads(figures: Figures) -> bool:
    """Whether the threads were mostly busy with requests that were never completed, as their workers ended."""
    never = (figures.flow.observed or 0.0) - (figures.flow.littles_law or 0.0)
    has_ended = figures.window.harakiris + count_lost(figures) > 0
    return has_ended and never >= MANY_STUCK * (figures.ceiling or math.inf)


def _explain_clients(figures: Figures) -> Advice | None:
    if figures.share("client") < MOSTLY:
        return None
    if connections_hold_threads(figures):
        return KEPT_CONNECTIONS.advise()
    return (STAY_OPEN if wait_for_websockets(figures.server) else SLOW_CLIENTS).advise()


def name_saturated(figures: Figures, saturation: Saturation) -> str:
    """The saturated backend by its name and address; empty if it is not known which one it is."""
    found = [each for each in figures.destinations if each.state == "backend"]
    if saturation.name:
        return next((each.label for each in found if each.name == saturation.name), saturation.name)
    main = [each.label for each in list_main(found)]
    return "".join(main) if len(main) == 1 and main != [UNKNOWN] else ""


def fills_threads(figures: Figures, saturation: Saturation) -> bool:
    """Whether half of the threads waited for a saturated backend at a high rate, which is then close to its most."""
    return saturation.many >= MOSTLY * (figures.ceiling or math.inf)


def _own(figures: Figures) -> Advice | None:
    cpus, used = figures.server.cpus, sum(list_loads(figures))
    is_busy = (mean_load(figures) or 0.0) > INTERPRETERS_BUSY or (cpus is not None and used >= CPU_FULL * cpus.count)
    if not is_busy or not find_cpu_of_own_threads(figures):
        return None
    pid = next((worker.local_pid for worker in figures.server.workers if worker.local_pid), None)
    return OWN_THREADS_COMPUTE.advise(pid=name_pids([pid]))
