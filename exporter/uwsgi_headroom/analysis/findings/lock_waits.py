"""Findings about requests that wait for a lock: of the application, or the interpreter's."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from msgspec.structs import replace

from uwsgi_headroom.analysis.advice import OWN_THREADS_COMPUTE, raise_processes
from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.cpus import see_own_threads
from uwsgi_headroom.analysis.findings.kind import Finding, Kind
from uwsgi_headroom.analysis.findings.threads import FEWEST_SLOW, THREADS_BUSY
from uwsgi_headroom.analysis.findings.waits import COMPUTING, LEAST_THREADS, USED, blocks
from uwsgi_headroom.analysis.littles_law import MOST_WAIT, is_standing, shows_a_limit
from uwsgi_headroom.analysis.shortages import (
    CPU_WAIT,
    LOCKED,
    find_cpu_of_own_threads,
    find_wait_of_holder,
    is_lock_bound,
    name_wait_of_holder,
    waits_for_cpu,
)
from uwsgi_headroom.analysis.wait_states import MOSTLY, WaitFigures, is_contended, of_request, queues_for_lock
from uwsgi_headroom.analysis.worker_states import end, find_outside_holder, see_calls, show_calls
from uwsgi_headroom.record import WorkerRecord
from uwsgi_headroom.words.formats import percent, rate
from uwsgi_headroom.words.template import Facts, Private

LITTLE = 0.7 * REACHED
"""An interpreter that uses less than this of a CPU is far from its limit."""

SELDOM_SECONDS = 0.5
"""The mean time of slow requests from which on users notice calls that seldom hold the lock."""

HOLDER_READY = 0.5
"""The part of the time in which the holder of a lock waits for a CPU from which on that is why others wait."""

MOST_LOOKED_AT = 8
"""The most workers that one command names."""

ENDLESS = (5.0, 10.0)
"""A worker goes on with none of its requests if each has been in service for so many seconds, and for so many times the
mean response time. While it completes others on threads that are free, they may be long polls, and have the time of a
stuck request."""

LITTLE_OF_LOCK = 0.1
"""The part of the wait for a lock that completed requests have, up to which the others hang there."""

SETTLED = 2.0
"""Seconds of a window after which a change of the number of threads is the application's: at first it is new."""

LOCK = Kind(
    code="application_lock",
    severity="warning or info",
    title="Threads wait for a lock of the application[behind? , whose holder waits for {behind}].",
    evidence="On average, {waiting:mean} of {busy:mean} busy threads ({share:percent}) wait for the lock{of_request}. "
    "This lock is not Python's interpreter lock (GIL).[held?  Each worker has its own lock. In the worker whose lock "
    "is used most, threads hold it for {held} of the time. At most {most} requests per second can pass the lock.]",
    meaning="Requests wait until another request releases the lock, or another thread has finished work for them.",
    act="Run {calls} to see where the threads wait, and what the lock's holder does.",
    then="Change the code so that it holds the lock for less time. Additional threads would also wait. More "
    "`processes` help if each process has its own lock[behind? , and if {behind} does not limit them all].",
    clause="[warning? the threads wait for a lock of the application]"
    "[warning, behind? , whose holder waits for {behind}]",
    runbook="UwsgiLockBound",
    fills_threads=True,
    limits="lock",
    states=("lock",),
)
LOCK_OF_ALL = replace(
    LOCK,
    title="Threads of all processes wait for one lock of the application[file? , on a file][lock? , which a mule "
    "holds].",
    evidence="On average, {waiting:mean} of {busy:mean} busy threads ({share:percent}) wait for the lock{of_request}."
    "[not lock?  This lock is not Python's interpreter lock (GIL).][held?  Threads hold it for {held} of the time. At "
    "most {most} requests per second can pass the lock.][lock?  In {part} of the samples in which requests wait for "
    "it, the mule holds `{lock}`.]",
    meaning="While one process holds the lock, no request can run the code that it protects, in any process.",
    act="[lock? Run `py-spy dump --pid {outside}` to see what the mule does while it holds the lock.]"
    "[worker? Run `py-spy dump --pid {holder}` to see what worker {worker} does: it holds the lock now.]"
    "[other? Run `ps -fp {outside}` to see what holds the lock now: it is not a worker of this uWSGI.]"
    "[ended? Run `lsof FILE` for the locked file: it lists the workers, and the program that keeps the lock.]"
    "[any? Run `for pid in {any}; do py-spy dump --pid $pid; done` to find the thread that holds the lock.]",
    then="[ended? End this program with `kill -9`: the process that took the lock has ended, but the program inherited "
    "the open file. Then start programs with `close_fds`.][not ended? Change the code so that it holds the lock for "
    "less time: for example, only to store what it has computed. More threads or processes would also wait.]",
    clause="[warning? the threads of all processes wait for one lock of the application][warning, file? , on a file]"
    "[warning, lock? , which a mule holds]",
)
LOCK_HELD_OUTSIDE = replace(LOCK_OF_ALL, replaces=("request_stuck",))  # to restart its worker would not help
OWN_LOCKS = replace(
    LOCK,
    title="Threads seem to wait for locks, but each for a different one.",
    evidence="On average, {waiting:mean} of {busy:mean} busy threads ({share:percent}) wait{of_request}; no two "
    "threads of a worker wait for the same lock.",
    meaning="Each waits for an event of its own, such as a gRPC response, an item of a queue, or a place in a pool.",
    act="Run {calls} to see at which line the threads wait.",
    then="Then speed up whatever they wait for, or provide more of it (such as places in a pool). Until you know what "
    "it is, do not add `threads`: the new threads may also wait.",
    clause="[warning? the threads wait, but each for a different lock]",
)

POOL = Kind(
    code="pool_exhausted",
    severity="warning or info",
    title="Threads wait for a place in a pool of {size}.",
    evidence="On average, {waiting:mean} of {busy:mean} busy threads ({share:percent}) wait for a lock{of_request}, "
    "while exactly {size} others of their worker sleep or wait for a backend.",
    meaning="The lock probably guards a pool of connections, such as that of SQLAlchemy or of an HTTP client: only "
    "{size} requests of a worker run at once. More threads would also wait.",
    act="If the backend can take {all} connections, raise the size of the pool from {size} to {threads}.",
    then="In SQLAlchemy, set `pool_size` and `max_overflow`. Otherwise, let requests hold a connection for less time.",
    clause="[warning? the threads wait for a place in a pool of {size}]",
    runbook="UwsgiLockBound",
    fills_threads=True,
    limits="lock",
    states=("lock",),
)

NO_END = Kind(
    code="waits_for_threads",
    severity="warning",
    title="Requests wait for other threads or each other, and never end.",
    evidence="{waiting:mean} of {busy:mean} busy threads ({share:percent}) seem to wait for a lock that no running "
    "request of their worker holds. All requests of {standing:worker} have lasted {seconds:duration} or longer.",
    meaning="Possible causes: a deadlock of two requests; a lock, or a place in a pool, that was never released; or a "
    "thread that hangs, or does not exist in the workers, because it was started before uWSGI forked them. More "
    "threads would also hang. Long polls end by themselves.",
    act="Run {calls} to see where the threads wait, and which other threads there are.",
    then="[end? Then end {standing:worker} with {end}. ]If a thread is missing, set `lazy-apps`, or start it in a "
    "function with `@postfork`. If requests wait for each other, take the locks in the same order everywhere, and give "
    "each wait a timeout.",
    clause="requests wait for other threads or each other, and never end",
    replaces=("request_stuck",),
    runbook="UwsgiLockBound",
    fills_threads=True,
    limits="waits",
    states=("lock",),
)
HANG = replace(
    NO_END,
    title="Requests hang at a lock, while others are completed.",
    evidence="On average, {waiting:mean} of {busy:mean} busy threads ({share:percent}) wait for a lock, and nearly all "
    "of this time is that of requests that were not completed.",
    meaning="The lock is held by a long request, in a deadlock, by code that never releases it, or at the end of "
    "Python: `sys.exit()` in a request waits for the other threads of its worker, which do not end.",
    act="Run {calls}: a thread in `_shutdown` of threading.py has called `sys.exit()`.",
    then="Return an error instead, and end a worker only from outside. Otherwise, take locks in the same order "
    "everywhere, release them after an exception, too, and give each wait a timeout.",
    clause="requests hang at a lock, while others are completed",
    limits="",
)
WAIT = replace(
    NO_END,
    severity="warning or info",
    title="Requests wait for background threads of their worker.",
    evidence="{waiting:mean} of {busy:mean} busy threads ({share:percent}) seem to wait for a lock{of_request}. No "
    "running request of the same worker could hold this lock.",
    meaning="These requests wait for a thread that the application or a library has started, such as an executor, the "
    "consumer of a queue, or the event loop of a client library (gRPC, Cassandra).",
    act="Run {calls} to see what the worker's other threads do.",
    then="Speed up their work, or let more of it run at once (for example, `max_workers` of an executor). More "
    "`threads` for requests help only if the background threads work for several requests at the same time.",
    clause="[bound? the threads wait for background threads of their worker]",
)
LOST_AT_FORK = replace(
    WAIT,
    severity="critical, warning or info",
    title="Requests most likely wait for a thread that exists only in uWSGI's master.",
    evidence=WAIT.evidence + " The workers have no other threads, and the master has {own} beside its first one.",
    meaning="A thread started before uWSGI forked the workers, for example by an import, does not exist in them.",
    act="Set `lazy-apps`, or start the thread after the fork, in a function with `@postfork`.",
    then="If {calls} shows that requests wait for each other instead, take locks in the same order everywhere.",
    clause="requests most likely wait for a thread that exists only in uWSGI's master",
)
WAIT_ALONE = replace(
    WAIT,
    title="Requests wait on locks or events until a timeout or another process ends the wait.",
    meaning="No other thread could end the wait. `Event().wait(seconds)` is a sleep if nobody sets the event.",
    act="Run {calls} to see at which lines the threads wait.",
    then="If they wait for a lock or a pool's connection, it was never given back, such as after an exception: repair "
    "that, and reload uWSGI. If they sleep, shorten the sleep, or raise `threads`: a sleep needs no CPU. If they wait "
    "for another process, make that process faster first.",
    clause="[bound? the threads wait on locks or events that no other thread of their worker can release]",
)

HELD_ASLEEP = Kind(
    code="interpreter_lock_held",
    severity="warning",
    title="Threads wait for the interpreter lock (GIL) of a worker that uses little CPU.",
    evidence="In worker {worker_id}, {lock_waiters:mean} threads wait for the lock, and the worker uses "
    "{interpreter_load:cpu} of a CPU; busy threads of all workers spend {share:percent} of their time in this "
    "wait{of_request}.[rest?  Background threads, which serve no requests, use {rest:cpu} of the {by_workers:cpu} CPUs "
    "that the workers use.]",
    meaning="The thread that holds the lock waits without releasing it. The usual cause is an extension module.",
    act="Run {native} to find the extension-module call that holds the lock.",
    then="Until this call is fixed, more processes help, because each process has its own interpreter lock. {more}.",
    clause="a call that does not compute holds the interpreter lock (GIL)",
    runbook="UwsgiInterpreterBound",
    fills_threads=True,
    limits="waits",
)
HELD_COMPUTING = replace(
    HELD_ASLEEP,
    title="Threads wait for the interpreter lock (GIL) while calls of other requests compute.",
    meaning="Python code gives the lock to another thread after 5 ms. A call into native code, such as a regular "
    "expression or the parser of a large document, keeps the lock until it ends.",
    act="Run {native} a few times to find the call that computes.",
    then="Make this call shorter. With more `processes`, it delays fewer requests, but only while CPUs are idle.",
    clause="calls that compute hold the interpreter lock (GIL)",
)
HELD_BY_OWN_THREADS = replace(
    HELD_ASLEEP,
    title="Threads wait for the interpreter lock (GIL) while background threads compute.",
    meaning="Each time a request needs the lock, such a thread keeps it for another 5 ms.",
    act=OWN_THREADS_COMPUTE.act,
    then=OWN_THREADS_COMPUTE.then,
    clause=OWN_THREADS_COMPUTE.cause,
)

COMPUTES_OUTSIDE = Kind(
    code="computes_outside_the_lock",
    severity="info",
    title="Threads use most of a CPU without waiting for the interpreter lock (GIL).",
    evidence="Worker {worker_id} uses {interpreter_load:cpu} of a CPU; of {busy:mean} requests in service, "
    "{lock_waiters:cpu} wait for it.",
    meaning="The threads compute in a library that releases the lock, such as numpy or a compression library. The "
    "interpreter is therefore not saturated, although the worker uses much CPU.",
    act="For this kind of work, add CPUs, not `processes`.",
    runbook="UwsgiInterpreterBound",
)


def find(figures: Figures) -> Iterator[Finding]:
    waits = figures.waits
    if waits is None:
        return
    is_elsewhere = any(blocks(figures, waits, each) for each in (waits.shared, waits.output))  # others report that
    if waits.threads.get("lock", 0.0) >= LEAST_THREADS and waits.share("lock") >= LOCKED and not is_elsewhere:
        yield _find_lock(figures)
    yield from _held(figures, waits)
    loads = {worker: worker.interpreter_load or 0.0 for worker in figures.active}
    free = [worker for worker, load in loads.items() if load >= REACHED and is_contended(worker) is False]
    for worst in sorted(free, key=lambda worker: -loads[worker])[:1]:
        yield COMPUTES_OUTSIDE.found(figures, worst, busy=worst.concurrency or 0.0)


def _find_lock(figures: Figures) -> Finding:
    now, is_bound = figures.server.sample, is_lock_bound(figures)
    if now.pools:  # a pool has fewer connections than there are threads
        size, threads = max(now.pools.values()), figures.threads_each
        every = threads * len(figures.server.workers)
        return POOL.found(figures, size=size, threads=threads, all=every, worse=is_bound)
    if now.holder == "thread":
        return _own_threads(figures, is_bound=is_bound)
    if now.holder == "nobody":
        return OWN_LOCKS.found(figures, worse=is_bound and _are_scarce(figures))
    lock = figures.lock if figures.lock and figures.lock.is_known else None
    facts: Facts = {"held": "", "most": "", "behind": Private(name_wait_of_holder(figures))}
    if lock:
        limits = dict.fromkeys(rate(each).removesuffix("/s") for each in sorted({lock.least_limit, lock.most_limit}))
        facts |= {"held": Private(percent(lock.hottest)), "most": " to ".join(limits)}
    behind, is_file = find_wait_of_holder(figures), lock is not None and lock.scope == "file"
    if behind is None and _hang(figures):
        return HANG.found(figures)
    worse = is_bound and not (behind and behind.is_silent)  # else that is what all wait for
    if now.holder == "processes" or is_file:
        outside = find_outside_holder(figures.server)
        row = LOCK_OF_ALL if outside is None else LOCK_HELD_OUTSIDE
        return row.found(figures, facts | _describe_holder(figures, outside, is_file=is_file), worse=worse)
    return LOCK.found(figures, facts, worse=worse)


def _describe_holder(figures: Figures, outside: int | None, *, is_file: bool) -> Facts:
    """Who holds a lock of all processes, such as that of a file. Its PID may be known; it is 0 if it has ended."""
    now = figures.server.sample
    mule = now.uwsgi_lock_holder if now.holder == "processes" else None
    holder = None if mule else now.file_lock_holder
    workers = {worker.local_pid: worker.worker_id for worker in figures.server.workers if worker.local_pid}
    is_outside = bool(holder) and holder == outside
    is_unknown = mule is None and holder not in workers and holder != 0 and not is_outside
    others = " ".join(map(str, list(workers)[:MOST_LOOKED_AT])) or "PIDS"
    return {
        "file": mule is None and (holder is not None or is_file),
        "lock": mule and f"uwsgi.lock({mule.lock or ''})",
        "part": mule and percent(mule.part),
        "worker": workers.get(holder or 0),
        "holder": Private(str(holder), "PID"),
        "outside": Private(str(outside), "PID"),
        "other": is_outside,
        "ended": holder == 0,
        "any": is_unknown and Private(others, "PIDS"),
    }


def _own_threads(figures: Figures, *, is_bound: bool) -> Finding:
    server, seconds = figures.server, max(ENDLESS[0], ENDLESS[1] * (figures.flow.response_time or 0.0))
    serving = {worker.worker_id: worker.threads or 0 for worker in server.workers}
    others = [(each.process_threads or inf) - serving.get(each.worker_id, 0) for each in figures.window.workers]
    is_alone = max(others, default=0) <= 0 and not _start_threads(figures)
    own = max([each.threads - 1 for each in server.roles if each.role == "master"], default=0)
    standing = _list_standing(figures, seconds)
    if is_alone and own > 0 and not server.setup.options.lazy_apps:
        stuck = sum(len(worker.ages) for worker in _list_standing(figures, figures.stuck_seconds))
        are_many = 2 * stuck >= (figures.ceiling or inf)  # as of `request_stuck`, which this explains
        return LOST_AT_FORK.found(figures, own=own, worse=2 * are_many or bool(standing) or _are_scarce(figures))
    if standing:
        ids = [worker.worker_id for worker in standing]
        oldest = max(age or 0.0 for worker in standing for age in worker.ages.values())
        surely = is_standing(figures.flow) or oldest >= figures.stuck_seconds
        facts: Facts = {"seconds": seconds, "calls": see_calls(server, ids[0]), "standing": ids}
        return NO_END.found(figures, facts, end=surely and end(server, standing))
    row = WAIT_ALONE if is_alone else WAIT
    is_much = is_alone and figures.share("lock") * (figures.flow.observed or 0.0) >= USED * (figures.available or inf)
    return row.found(figures, bound=is_bound, worse=_are_scarce(figures) or is_much)


def _hang(figures: Figures) -> bool:
    """Whether those that wait for a lock are requests that last, and those that are completed hardly wait for one."""
    waits, throughput = figures.waits, figures.flow.throughput
    if waits is None or not throughput:
        return False
    waiting = waits.threads.get("lock", 0.0)
    if waits.per_request is None:  # many were lost
        return waits.lasting >= waiting
    return (waits.each("lock") or 0.0) * throughput <= LITTLE_OF_LOCK * waiting


def _list_standing(figures: Figures, seconds: float) -> list[WorkerRecord]:
    completing = {worker.worker_id for worker in figures.window.workers if worker.requests}

    def stands(worker: WorkerRecord) -> bool:
        goes_on = worker.worker_id in completing and len(worker.ages) != worker.threads
        return min(age or 0.0 for age in worker.ages.values()) >= (figures.stuck_seconds if goes_on else seconds)

    return [worker for worker in figures.server.workers if worker.ages and stands(worker)]


def _start_threads(figures: Figures) -> bool:
    """Whether threads of a worker began or ended in the window, such as one that computes what a cache lacks."""
    since = figures.window.start + SETTLED
    lived = {worker.worker_id for worker in figures.window.workers if not worker.respawns}
    return any(each.threads_since > since for each in figures.server.workers if each.worker_id in lived)


def _are_scarce(figures: Figures) -> bool:
    busy, ceiling = figures.flow.observed or 0.0, figures.ceiling or 0
    return busy >= THREADS_BUSY * ceiling or shows_a_limit(figures.flow)


def _held(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    """Threads that wait for an interpreter lock whose holder does not compute, or is in a single long call."""
    share = waits.share("interpreter_lock")
    is_long, is_seldom = share >= MOSTLY and (waits.each("interpreter_lock") or 0.0) >= MOST_WAIT, _is_seldom(figures)
    held = [
        worker
        for worker in figures.active
        if worker.lock_waiters is not None and (is_seldom or queues_for_lock(worker))
        if worker.interpreter_load is not None and worker.interpreter_load < (REACHED if is_long else LITTLE)
    ]
    ready, running = (waits.threads.get(state, 0.0) for state in ("cpu_wait", "cpu"))
    lacks_cpu = ready > max(running, HOLDER_READY * len(held)) or waits_for_cpu(figures, CPU_WAIT)
    if not held or share < LOCKED or lacks_cpu:  # others report the lack of CPU
        return
    worst = max(held, key=lambda worker: worker.lock_waiters or 0.0)
    native = Private(f"{show_calls(figures.server, worst.worker_id)[:-1]} --native`", "`py-spy dump --native`")
    of_each = of_request(waits, waits.each("interpreter_lock"))
    facts: Facts = {"share": share, "of_request": of_each, "native": native}
    if find_cpu_of_own_threads(figures):
        yield HELD_BY_OWN_THREADS.found(figures, facts, worst, pid=see_own_threads(figures))
    elif _may_compute(figures, worst):
        yield HELD_COMPUTING.found(figures, facts, worst)
    else:
        more = raise_processes(figures, is_modelled=False)
        yield HELD_ASLEEP.found(figures, facts, worst, more=more.change, settings=more.settings)


def _is_seldom(figures: Figures) -> bool:
    """Whether a few calls hold the lock for long: requests that take far longer than the others, with the lock or in
    the wait for it, by more than all time that is spent elsewhere explains."""
    slow, times, mean = figures.slow, figures.response_times, figures.flow.response_time
    if not (slow and times and mean and figures.waits) or slow.seconds < SELDOM_SECONDS * slow.number:
        return False
    elsewhere = 1 - sum(map(figures.share, COMPUTING))
    return slow.number >= FEWEST_SLOW and slow.seconds / (mean * times.requests) - elsewhere >= LOCKED


def _may_compute(figures: Figures, worker: WorkerFigures) -> bool:
    """Whether the worker computes for so long that all waiting for its lock can be in that time."""
    load = worker.interpreter_load or 0.0
    threads = next((each.threads for each in figures.server.workers if each.worker_id == worker.worker_id), None)
    return load >= LITTLE or (worker.lock_waiters or 0.0) <= ((threads or 0) - 1) * load
