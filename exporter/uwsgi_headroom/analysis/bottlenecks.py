"""Finds what makes requests wait although threads are free, or would make more threads wait as well: a lack that more
threads do not remove, and what to do about it.

Each reason rests on positive evidence: a state of the threads that was measured, a counter, an option. What helps where
there is none is in `advice`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from uwsgi_headroom.analysis.backends import Saturation
from uwsgi_headroom.analysis.capacity import fits
from uwsgi_headroom.analysis.destinations import (
    UNKNOWN,
    DestinationFigures,
    list_main,
)
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import is_standing, shows_a_limit
from uwsgi_headroom.analysis.log_words import ENDS, STARTS, see_log
from uwsgi_headroom.analysis.shortages import (
    CPU_FULL,
    IF_WEBSOCKETS,
    SERVE_WEBSOCKETS,
    WEBSOCKETS,
    find_cpu_of_own_threads,
    list_loads,
    mean_load,
)
from uwsgi_headroom.analysis.sizing import count_needed_threads
from uwsgi_headroom.analysis.wait_states import MOSTLY, wait_for_websockets
from uwsgi_headroom.analysis.worker_states import (
    AWAY,
    MANY_STUCK,
    are_reloaded,
    are_reloaded_at_once,
    are_stopped_when_idle,
    find_ends,
    name_slots,
    part_away,
    reach_max_requests,
    show_calls,
    starts_on_demand,
)
from uwsgi_headroom.words.formats import duration, name_pids, percent

INTERPRETERS_BUSY = 0.45
"""Above this mean load of the interpreters, more threads would mostly wait for their interpreter."""

MOSTLY_BUSY = 0.75
"""Below this mean fraction of busy threads, threads are free; requests that wait nevertheless may have a reason of
their own."""

WORKER_FULL = 0.9
"""At or above this mean fraction of its busy threads, a worker leaves requests of its own sockets waiting."""

SPREAD = "Let the web server spread the load evenly over the sockets of `map-socket`, or remove `map-socket`."
"""The advice about unequal shares of such sockets."""

UNREACHABLE = (
    "`map-socket` gives workers sockets of their own: a free thread cannot take a request that waits at the socket of "
    "another worker."
)
"""What such sockets mean."""


Settings = tuple[tuple[str, int], ...]
"""Options of uWSGI, and the number that an advice sets each to."""


class Explanation(NamedTuple):
    """A change that evidence shows to help. cause: what is short, as a clause; the others: see `advice.Advice`."""

    cause: str
    change: str
    settings: Settings = ()
    serves: float | None = None
    all_busy: bool = False
    """Whether it says that all threads, async cores or interpreters are busy: no cause while some are free."""


def find_bottleneck(figures: Figures) -> Explanation | None:
    """What makes requests wait, and what to do about it; None if the server may lack only threads or interpreters.
    Of several, the first is what the others follow from."""
    reasons = (
        bring_workers_back,
        why_free_threads_do_not_serve,
        _why_requests_do_not_end,
        _explain_clients,
        _find_own_threads,
    )
    return next(filter(None, (reason(figures) for reason in reasons)), None)


def bring_workers_back(figures: Figures) -> Explanation | None:
    """What to do first, if workers are down part of the time."""
    away = part_away(figures) or 0.0
    if away < AWAY and not _lacks_the_replaced(figures, away):
        return None
    if known := _explain_idle(figures) or _explain_replacement(figures, away):
        return known
    if away < AWAY:
        return None
    why = see_log(figures.server, f"the reason why workers are down {percent(away)} of the time", (*ENDS, *STARTS))
    return Explanation("workers are down part of the time", why)


def _lacks_the_replaced(figures: Figures, away: float) -> bool:
    """Whether requests wait because one worker after another is away, although all together have threads to spare."""
    processes, threads, busy = len(figures.window.workers), figures.ceiling or 0, figures.flow.observed or 0.0
    left = threads * (processes - 1) / max(1, processes)
    is_long = processes * away >= AWAY and not figures.window.reloads
    return is_long and MOSTLY_BUSY * left <= busy < WORKER_FULL * threads and shows_a_limit(figures.flow)


def _explain_idle(figures: Figures) -> Explanation | None:
    """What to do about workers that uWSGI stops while no request comes, or starts only when one comes."""
    options = figures.server.setup.options
    if not are_stopped_when_idle(figures):
        return None
    lazy = " Alternatively, remove `lazy-apps`: uWSGI then loads the application once, and only forks the workers."
    if options.idle:
        return Explanation(
            "uWSGI stops its workers when it is idle",
            f"Remove `idle`, or raise it: after {options.idle} s without a request, uWSGI stops all workers, and the "
            f"next request waits until a worker is up again.{lazy if options.lazy_apps else ''}",
        )
    return Explanation(
        "uWSGI does not start its workers before a request comes",
        f"Remove `cheap`, so that the workers start before the first request.{lazy if options.lazy_apps else ''}",
    )


def _explain_replacement(figures: Figures, away: float) -> Explanation | None:
    """What to do about workers that are away only because they were reloaded, or reached `max-requests`."""
    ended, log, processes = find_ends(figures), figures.server.log, len(figures.window.workers)
    is_lossy = figures.window.harakiris or any(worker.lost for worker in figures.window.workers)
    if is_lossy or (log and any(code in log.messages for code in ENDS)):
        return None
    if not ended:
        return find_reload(figures) if figures.window.reloads else None
    each = duration(away * figures.window.observed_seconds * processes / sum(times for _, times, _ in ended))
    faster = f"let the application load faster: each worker was down for {each}."
    if reach_max_requests(figures):
        return Explanation(
            "workers that reach `max-requests` are down for long",
            f"Raise `max-requests` from {figures.server.setup.options.max_requests}, so that workers are replaced less "
            f"often, or {faster}",
        )
    if not are_reloaded(figures, ended):
        return None
    if are_reloaded_at_once(figures):
        return Explanation(
            "all workers were reloaded at once",
            f"Use {_CHAIN_RELOAD}",
        )
    return Explanation(
        "while a chain reload replaces a worker, the others are too few"
        if processes > 1
        else "while the only worker is reloaded, nothing serves requests",
        f"Raise `processes` from {processes} to {processes + 1} ({fits(figures.server.memory, 1)}): as many workers as "
        f"now then serve requests while one is replaced. Alternatively, reload when there are fewer requests, or "
        f"{faster}",
        (("processes", processes + 1),),
    )


_CHAIN_RELOAD = "a chain reload (`lazy-apps` and `touch-chain-reload`): it replaces one worker after another."


def find_reload(figures: Figures) -> Explanation:
    """What to do about full reloads."""
    if figures.window.reloads >= AGAIN_AND_AGAIN:
        return Explanation("uWSGI is reloaded again and again", find_reloader(figures))
    return Explanation(
        "uWSGI was reloaded",
        f"If requests waited while a full reload loaded the application, use {_CHAIN_RELOAD}",
    )


AGAIN_AND_AGAIN = 3
"""From so many full reloads in a window on, it matters what reloads uWSGI, more than how."""


def why_free_threads_do_not_serve(figures: Figures) -> Explanation | None:
    """What to do if requests wait although threads are free, for a known reason."""
    if not waits_while_threads_are_free(figures):
        return None
    if _is_mapped_to_a_full_worker(figures):
        return Explanation("a worker with sockets of its own has no free thread", SPREAD)
    if waits_for_a_reload(figures):
        return find_reload(figures)
    return spawn_earlier(figures)


def find_reloader(figures: Figures) -> str:
    """How to find what reloads uWSGI again and again."""
    times = f"{figures.window.reloads} times in the last {duration(figures.window.seconds)}"
    return (
        f"Find out what reloads uWSGI ({times}): something sends SIGHUP, writes to `master-fifo`, or touches a file "
        "(the one of `touch-reload`, or a module that `py-autoreload` watches). At each reload, requests wait until "
        "the application is loaded."
    )


def spawn_earlier(figures: Figures) -> Explanation | None:
    """What to do if cheaper mode keeps workers in reserve while requests wait."""
    workers = figures.server.workers
    reserve = [worker for worker in workers if worker.state == "reserve"]
    each = figures.threads_each
    if not reserve or not each or starts_on_demand(figures.server.setup.options):
        return None
    up = len(workers) - len(reserve)
    needed = math.ceil((count_needed_threads(figures) or 0.0) / each)
    count, options = min(len(workers) - 1, max(up, needed)), figures.server.setup.options
    cause, why = "cheaper mode does not start more workers", "cheaper mode spawns workers too late."
    if count <= (options.cheaper or 0):
        return Explanation(cause, f"Remove `cheaper`, so that all workers run: {why}")
    if count <= (options.cheaper_initial or 0):
        return Explanation(cause, f"Raise `cheaper` to {count}: {why}", (("cheaper", count),))
    return Explanation(
        cause,
        f"Raise `cheaper` and `cheaper-initial` to {count}: {why}",
        (("cheaper", count), ("cheaper-initial", count)),
    )


def waits_for_a_reload(figures: Figures) -> bool:
    """Whether requests wait although threads are free, in a window with a full reload, and are completed, and no worker
    is paused, down or the only one that takes them. They most likely waited while it loaded the application."""
    if not figures.window.reloads or is_standing(figures.flow) or not waits_while_threads_are_free(figures):
        return False
    return not (_is_mapped_to_a_full_worker(figures) or bring_workers_back(figures))


def waits_while_threads_are_free(figures: Figures) -> bool:
    """Whether requests wait although a part of the threads is free."""
    flow, _ = figures.longest_wait
    return shows_a_limit(flow) and (figures.flow.observed or 0.0) < MOSTLY_BUSY * (figures.ceiling or 0)


def _is_mapped_to_a_full_worker(figures: Figures) -> bool:
    """Whether workers have sockets of their own, and the threads of a worker are nearly always busy."""
    if not figures.server.setup.mapped:
        return False
    threads = {worker.worker_id: worker.threads for worker in figures.server.workers}
    return any(
        (worker.concurrency or 0.0) >= WORKER_FULL * (threads.get(worker.worker_id) or math.inf)
        for worker in figures.balance.workers
    )


def _why_requests_do_not_end(figures: Figures) -> Explanation | None:
    """What to do instead of adding threads, if the present ones are held by requests that do not end."""
    slots = name_slots(figures.server)
    if not is_standing(figures.flow) or (figures.flow.observed or 0.0) < MANY_STUCK * (figures.ceiling or 0):
        return None
    return Explanation(
        f"the requests in service do not end, and hold the {slots}",
        f"Run {show_calls(figures.server)} to see what the requests in service wait for: no request was completed, "
        f"and additional {slots} would most likely also wait.",
    )


def connections_hold_threads(figures: Figures) -> bool:
    """Whether clients that keep their connections hold threads that are free by uWSGI's count: it counts no request in
    service while it waits for the next one on a connection (`http11-socket`). How many they hold is not known."""
    client = figures.waits.share("client") if figures.waits else 0.0
    return client >= MOSTLY and waits_while_threads_are_free(figures)


def killed_fill_threads(figures: Figures) -> bool:
    """Whether the threads were busy, most of the time, with requests that were never completed, because `harakiri` or
    anything else ended their workers. What the completed ones took says little of these."""
    flow, window = figures.flow, figures.window
    ended = window.harakiris + sum(worker.lost for worker in window.workers)
    never = (flow.observed or 0.0) - (flow.littles_law or 0.0)
    return ended > 0 and never >= MANY_STUCK * (figures.ceiling or math.inf)


def _explain_clients(figures: Figures) -> Explanation | None:
    """What to do if most threads in use wait for clients."""
    if figures.waits is None or figures.waits.share("client") < MOSTLY:
        return None
    if connections_hold_threads(figures):
        return Explanation(
            "clients that keep connections open hold the threads between requests",
            "Let a web server, or uWSGI's `http` router with `http-keepalive`, hold the connections of clients. "
            "With `http11-socket`, each connection holds a thread until it is closed. `http-socket`, in contrast, "
            "closes it after each response.",
        )
    if wait_for_websockets(figures.server):
        return Explanation(WEBSOCKETS, SERVE_WEBSOCKETS)
    return Explanation(
        "slow clients hold the threads",
        "Let the web server in front of uWSGI buffer requests and responses. If you add threads, slow clients will "
        f"also hold the new threads. {IF_WEBSOCKETS}",
    )


def name_saturated(figures: Figures, saturation: Saturation) -> str:
    """The saturated backend by its name and address; empty if it is not known which one it is."""
    found = _list_saturated(figures, saturation)
    return found[0].label if found else saturation.name or ""


def _list_saturated(figures: Figures, saturation: Saturation) -> list[DestinationFigures]:
    """The saturated backend, as what threads wait for; empty if it is not known which one it is."""
    found = [each for each in (figures.waits.destinations if figures.waits else ()) if each.state == "backend"]
    if saturation.name:
        return [each for each in found if each.name == saturation.name][:1]
    main = list_main(found)
    return main if len(main) == 1 and main[0].label != UNKNOWN else []


def fills_threads(figures: Figures, saturation: Saturation) -> bool:
    """Whether half of the threads waited for a saturated backend, on average, while the rate was high. It is then close
    to what the backend completes at most; else it is the mean of short bursts and the time between them."""
    return saturation.many >= MOSTLY * (figures.ceiling or math.inf)


OWN_THREADS_COMPUTE = "threads that serve no request use most of the workers' CPU time"
"""The cause of interpreters that are busy without requests, as a clause."""


def find_computing_thread(figures: Figures) -> str:
    """The advice about threads that serve no request, and compute."""
    pid = name_pids([next((worker.local_pid for worker in figures.server.workers if worker.local_pid), None)])
    return (
        f"Run `top -H -p {pid}` and `py-spy dump --pid {pid}` to find the threads that serve no "
        f"request. Move their work into a process of its own, such as a mule or the spooler; if a library "
        "computes in threads, limit their number (`OMP_NUM_THREADS`). Each additional worker would also start such "
        "threads."
    )


def _find_own_threads(figures: Figures) -> Explanation | None:
    """What to do if the interpreters or CPUs are busy with threads that serve no request."""
    cpus, used = figures.server.cpus, sum(list_loads(figures))
    is_busy = (mean_load(figures) or 0.0) > INTERPRETERS_BUSY or (cpus is not None and used >= CPU_FULL * cpus.count)
    if not is_busy or not find_cpu_of_own_threads(figures):
        return None
    return Explanation(OWN_THREADS_COMPUTE, find_computing_thread(figures))
