"""Advises what to change for more capacity, depending on the scarce resource: CPUs, interpreters or threads.

Here it is decided whether there is evidence for an advice. Every text that advises more threads or processes comes from
`add_capacity`, or rests on a measured load of the interpreters.
"""

from __future__ import annotations

import math
import shlex

from uwsgi_headroom.analysis.capacity import fits
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.littles_law import is_standing, shows_a_limit
from uwsgi_headroom.analysis.wait_states import largest_backend
from uwsgi_headroom.analysis.worker_states import (
    ASYNC,
    ASYNC_FULL,
    AWAY,
    MANY_STUCK,
    RESUME,
    find_failing,
    find_harmful_requests,
    find_paused,
    name_slots,
    part_away,
)
from uwsgi_headroom.words.formats import numbered, percent

INTERPRETERS_BUSY = 0.45
"""Above this mean load of the interpreters, more threads would mostly wait for their interpreter."""

CPU_FULL = 0.90
"""CPU is scarce if the workers use at least this fraction of the usable CPUs."""

LEAST_OWN = 0.05
"""The workers can lack CPU only if they use at least this fraction of the usable CPUs: on an idle server no request
waits."""

MOSTLY = 0.5
"""The share of the threads' time from which on one state is what requests mostly wait for."""

MOSTLY_BUSY = 0.75
"""Below this mean fraction of busy threads, threads are free; requests that wait nevertheless may have a reason of
their own."""

WORKER_FULL = 0.9
"""At or above this mean fraction of its busy threads, a worker leaves requests of its own sockets waiting."""

SPREAD = "Spread the load over the sockets that `map-socket` gives to single workers, or leave `map-socket` out."
"""The advice about unequal shares of such sockets."""

FIND_BLOCKING_CALL = (
    "Run `py-spy dump --pid PID` on a worker: a call that does not yield, as of a driver that is not patched for "
    "coroutines, stops all requests of its worker."
)
"""The advice about requests that wait although async cores are free."""

MORE = 1.5
"""The factor that the advice recommends: a step whose effect is visible, and that can be undone."""


def add_capacity(figures: Figures) -> str:
    """One step to take, in the imperative: for more capacity where evidence shows which helps, else to get it."""
    return _find_proven_step(figures) or _see_waits_first(figures)


def lacks_evidence(figures: Figures) -> bool:
    """Whether `add_capacity` advises neither more threads nor more processes, because it is not known what the threads
    wait for, and nothing else shows what would help."""
    return _find_proven_step(figures) is None


def _find_proven_step(figures: Figures) -> str | None:
    """The step that the evidence shows to help; None if that depends on what the threads wait for, and it is unknown.

    More threads help requests that wait for a backend with room to spare. For one lock, a full backend or slow clients
    they only wait as well. So advice to add threads needs to know the waits; advice to add processes needs that, or
    interpreters that compute much of the time.
    """
    reasons = (_bring_workers_back, _why_free_threads_do_not_serve, _why_threads_would_not_help)
    if other := next(filter(None, (reason(figures) for reason in reasons)), None):
        return other
    workers = figures.balance.active or figures.balance.workers
    loads = [worker.interpreter_load for worker in workers if worker.interpreter_load is not None]
    load = sum(loads) / len(loads) if loads else None
    cpus = figures.server.cpus
    if cpus and sum(loads) >= CPU_FULL * cpus.count:
        used = percent(sum(loads) / cpus.count)
        return f"Add CPUs, or move load to another host: the workers use {used} of theirs."
    if cpus and lacks_cpu(figures, cpus.count):
        return "Move other programs to another host, or add CPUs: no CPU is idle."
    if load is not None and load > INTERPRETERS_BUSY:
        return (
            f"{_raise_processes(figures)}. The interpreters are at {load:.2f} of a CPU each: more "
            f"{name_slots(figures.server)} would wait for them."
        )
    if name_slots(figures.server) == ASYNC:
        return _advise_coroutines(figures)
    return _more_workers_or_threads(figures, load) if are_waits_known(figures) else None


def _bring_workers_back(figures: Figures) -> str | None:
    """What to do first, if workers are paused or down."""
    if find_paused(figures.server.workers):
        return RESUME
    if failing := find_failing(figures):
        return f"See uWSGI's log for why {numbered('worker', failing)} cannot start."
    away = part_away(figures)
    if away is not None and away >= AWAY:
        return f"See uWSGI's log for why workers are down {percent(away)} of the time."
    return None


def _why_free_threads_do_not_serve(figures: Figures) -> str | None:
    """What to do if requests wait although threads are free, for a known reason."""
    if not _wait_while_threads_are_free(figures):
        return None
    if _is_mapped_to_a_full_worker(figures):
        return SPREAD
    if waits_for_a_reload(figures):
        return (
            "If requests waited while a full reload loaded the application, use a chain reload (`lazy-apps` and "
            "`touch-chain-reload`), which replaces one worker after another."
        )
    return None


def waits_for_a_reload(figures: Figures) -> bool:
    """Whether requests wait although threads are free, in a window with a full reload, and are completed, and no worker
    is paused, down or the only one that takes them. They most likely waited while it loaded the application."""
    if not figures.window.reloads or is_standing(figures.flow) or not _wait_while_threads_are_free(figures):
        return False
    return not (_is_mapped_to_a_full_worker(figures) or _bring_workers_back(figures))


def _wait_while_threads_are_free(figures: Figures) -> bool:
    return shows_a_limit(figures.flow) and (figures.flow.observed or 0.0) < MOSTLY_BUSY * (figures.ceiling or 0)


def _is_mapped_to_a_full_worker(figures: Figures) -> bool:
    """Whether workers have sockets of their own, and the threads of a worker are nearly always busy."""
    if not figures.server.setup.mapped:
        return False
    threads = {worker.worker_id: worker.threads for worker in figures.server.workers}
    return any(
        (worker.concurrency or 0.0) >= WORKER_FULL * (threads.get(worker.worker_id) or math.inf)
        for worker in figures.balance.workers
    )


def _why_threads_would_not_help(figures: Figures) -> str | None:
    """What to do instead of adding threads, if these would only wait as the present ones do."""
    slots = name_slots(figures.server)
    if len(find_harmful_requests(figures)) >= MANY_STUCK * (figures.ceiling or math.inf) and slots != ASYNC:
        return "Find out first what the stuck requests wait for: more threads would get stuck as well."
    if is_standing(figures.flow) and (figures.flow.observed or 0.0) >= MANY_STUCK * (figures.ceiling or 0):
        return (
            "Find out first what the requests in service wait for, with `py-spy dump --pid PID`: none was completed, "
            f"and more {slots} would most likely wait as well."
        )
    if figures.waits and figures.waits.share("client") >= MOSTLY:
        return (
            "Let the web server in front buffer requests and responses: slow clients would take more threads as well."
        )
    if figures.waits and figures.waits.share("lock") >= MOSTLY:
        return "Find out which lock of the application the threads wait for: more threads would wait for it as well."
    return None


def are_waits_known(figures: Figures) -> bool:
    """Whether it is known what the threads wait for, for most of their time."""
    return figures.waits is not None and figures.waits.share("unknown") < MOSTLY


def _see_waits_first(figures: Figures) -> str:
    """How to see what the threads wait for, and what to do in each case."""
    waits = figures.server.waits
    if waits is None or waits.needs_right:
        address = figures.server.address.removeprefix("unix://")
        server = shlex.quote(address) if address and "?" not in address else "--all"
        how = f"run `sudo $(command -v uwsgi-headroom) check {server}` on the server's host"
    else:
        how = "run `py-spy dump --pid PID` on a worker"
    return (
        f"First see what the threads wait for, which is not known here: {how}. "
        "If it is a lock of the application, hold it for less time; more processes help only if each has its own. If "
        "it is a backend, make it faster, or let it take more at once. If it is slow clients, let the web server in "
        "front buffer requests and responses. Leave `threads` and `processes` as they are until then: more of them may "
        "only wait as well."
    )


def _advise_coroutines(figures: Figures) -> str:
    """What to do on a server with coroutines. One thread serves many requests there, so nothing shows what each waits
    for."""
    if (figures.flow.observed or 0.0) < ASYNC_FULL * (figures.ceiling or 0):
        return FIND_BLOCKING_CALL
    return (
        "If the requests last by nature (event streams, WebSockets, long polls), or wait for a backend that can take "
        "more at once, raise `gevent` (or `async`), the number of requests that a worker serves at once. If they wait "
        "for a lock or a full backend, make that faster: more of them would wait as well."
    )


def _more_workers_or_threads(figures: Figures, load: float | None) -> str:
    """The advice to add workers or threads. load: mean load of an interpreter; None if unknown."""
    processes = len(figures.server.workers)
    each = round((figures.ceiling or 0) / processes) if processes else 0
    raise_processes = _raise_processes(figures)
    if each == 1:
        return f"{raise_processes}. Raise `threads` only if the application is safe to run in several threads."
    if not each:
        return f"{raise_processes}."
    idle = "" if load is None else f" The interpreters are at {load:.2f} of a CPU each."
    return f"Raise `threads` from {each} to {math.ceil(MORE * each)}.{idle} {_what_they_wait_for(figures)}"


def _raise_processes(figures: Figures) -> str:
    processes = len(figures.server.workers)
    more = math.ceil(MORE * processes)
    return f"Raise `processes` from {processes} to {more} ({fits(figures.server.memory, more - processes)})"


def _what_they_wait_for(figures: Figures) -> str:
    """What to do before there are more threads."""
    waits = figures.waits
    if waits is None or waits.share("backend") < MOSTLY:
        return "If all requests wait for the same thing, such as a database, make that faster first."
    name = largest_backend(waits)
    what = name if name and waits.backends[name] >= MOSTLY * waits.total else "backends"
    return f"{percent(waits.share('backend'))} of their time is waiting for {what}: faster queries help as much."


def lacks_cpu(figures: Figures, cpus: float) -> bool:
    """Whether the workers use CPU while no CPU is idle and other processes use the rest."""
    cpu = figures.cpu
    return cpu is not None and cpu.own >= LEAST_OWN * cpus and cpu.idle <= (1 - CPU_FULL) * cpus
