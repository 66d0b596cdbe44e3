"""Findings about requests that wait for a lock: of the application, or the interpreter's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from uwsgi_headroom.analysis.advice import Advice, raise_processes
from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.bottlenecks import OWN_THREADS_COMPUTE, find_computing_thread
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.findings.limits import THREADS_BUSY
from uwsgi_headroom.analysis.findings.load import describe_own_threads
from uwsgi_headroom.analysis.findings.waits import LEAST_THREADS, blocks
from uwsgi_headroom.analysis.littles_law import MOST_WAIT, is_standing, shows_a_limit
from uwsgi_headroom.analysis.locks import LockFigures
from uwsgi_headroom.analysis.shortages import (
    CPU_WAIT,
    LOCKED,
    WAIT_ALONE,
    WAIT_FOR_THREADS,
    find_cpu_of_own_threads,
    find_holder,
    find_wait_of_holder,
    have_no_other_threads,
    is_lock_bound,
    name_wait_of_holder,
    waits_for_cpu,
)
from uwsgi_headroom.analysis.wait_states import MOSTLY, WaitFigures, is_contended, of_request, queues_for_lock
from uwsgi_headroom.analysis.worker_states import end, find_outside_holder, show_calls
from uwsgi_headroom.record import LockHolder, ServerRecord
from uwsgi_headroom.words.formats import duration, mean_count, numbered, percent, rate

LITTLE = 0.7 * REACHED
"""An interpreter that uses less than this of a CPU is far from its limit."""

HOLDER_READY = 0.5
"""The part of the time in which the holder of a lock waits for a CPU from which on that is why others wait."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about locks; none where it is not known what requests wait for."""
    if figures.waits is not None:
        yield from _locks(figures, figures.waits)
        yield from _held(figures)
        yield from _disagreement(figures)


def _locks(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    threads, share = waits.threads.get("lock", 0.0), waits.share("lock")
    if threads < LEAST_THREADS or share < LOCKED or any(blocks(figures, waits, each) for each in _holders(waits)):
        return
    pools = figures.server.waits.pools if figures.server.waits else {}
    if pools:
        yield _pool(figures, waits, max(pools.values()))
        return
    if find_holder(figures) == "thread":
        yield _own_threads(figures, waits)
        return
    if find_holder(figures) == "nobody":
        yield _own_answers(figures, waits)
        return
    mule = figures.server.waits.uwsgi_lock_holder if figures.server.waits else None
    if mule and find_holder(figures) == "processes":
        yield _held_by_mule(figures, waits, mule)
        return
    behind, of_all = find_wait_of_holder(figures), find_holder(figures) == "processes"
    behind_label = name_wait_of_holder(figures)
    is_cause = is_lock_bound(figures) and not (behind and behind.is_silent)  # else that is what all wait for
    is_file = figures.lock is not None and figures.lock.scope == "file" and figures.lock.is_known
    holder = figures.server.waits.file_lock_holder if figures.server.waits and (is_file or of_all) else None
    is_file |= holder is not None
    yield Finding(
        code="application_lock",
        severity="warning" if is_cause else "info",
        title="Threads of all processes wait for a lock on the same file."
        if is_file
        else "Threads of all processes wait for one lock of the application."
        if of_all
        else "Threads wait for a lock of the application.",
        evidence=f"{_count_waiting(waits)} This lock is not Python's interpreter lock.{_describe_lock(figures.lock)}"
        + (f" The thread that holds the lock waits for {behind_label}." if behind_label else ""),
        meaning="Requests wait for each other: only one request at a time (or, with a semaphore, a fixed number of "
        "requests) can run the code that the lock protects."
        if of_all
        else "Requests wait for each other: only one request at a time can run the code that the lock protects."
        if figures.lock is not None
        else "Requests wait for a lock that another request holds, or for the result of work that they gave to another "
        "thread.",
        clause=""
        if not is_cause
        else "the threads of all processes wait for a lock on the same file"
        if is_file
        else "the threads of all processes wait for one lock of the application"
        if of_all
        else "the threads wait for a lock of the application",
        change=f"{_see_holder(figures.server, holder, of_all=is_file or of_all)}. If the problem began with a deploy, "
        f"roll the deploy back. Then change the code so that {_hold_less(holder, is_behind=bool(behind_label))}. "
        f"{_who_waits(figures.lock, behind_label, of_all=is_file or of_all)}",
    )


def _count_waiting(waits: WaitFigures) -> str:
    return (
        f"On average, {mean_count(waits.threads.get('lock', 0.0))} of {mean_count(waits.total)} busy threads "
        f"({percent(waits.share('lock'))}) wait for the lock{of_request(waits, waits.each('lock'))}."
    )


def _held_by_mule(figures: Figures, waits: WaitFigures, mule: LockHolder) -> Finding:
    """Requests that wait for a lock of `uwsgi.lock()` that a mule holds."""
    is_cause, lock = is_lock_bound(figures), f"`uwsgi.lock({mule.lock or ''})`"
    return Finding(
        code="application_lock",
        severity="warning" if is_cause else "info",
        title="Threads of all processes wait for a lock that a mule holds.",
        evidence=f"{_count_waiting(waits)} In {percent(mule.part)} of the samples in which requests wait for it, mule "
        f"{mule.pid} holds {lock}.",
        meaning="While the mule holds the lock, no request can run the code that the lock protects.",
        clause="the threads of all processes wait for a lock that a mule holds" if is_cause else "",
        change=f"Run `py-spy dump --pid {mule.pid}` to see what the mule does while it holds {lock}. If the problem "
        "began with a deploy, roll the deploy back. Then change the code of the mule so that it holds the lock for "
        "less time: for example, it computes without the lock, and takes it only to store the result. "
        f"{_who_waits(None, '', of_all=True)}",
    )


def _hold_less(holder: int | None, *, is_behind: bool) -> str:
    """What the code should do instead. is_behind: whether the holder waits for something, which is known."""
    if holder == 0:
        return "the programs that it starts do not inherit its open files (`close_fds`)"
    return "it does not wait while it holds the lock" if is_behind else "it holds the lock for less time"


def _see_holder(server: ServerRecord, holder: int | None, *, of_all: bool) -> str:
    """How to see what holds the lock: it may be in any process, unless each worker has a lock of its own. holder: the
    PID that is known to hold it, 0 if that process has ended."""
    workers = {worker.local_pid: worker.worker_id for worker in server.workers if worker.local_pid}
    if holder in workers:
        return (
            f"Run `py-spy dump --pid {holder}` to see what worker {workers[holder]} does: this worker holds the "
            "lock now"
        )
    if holder and holder == find_outside_holder(server):
        return (
            f"Run `ps -fp {holder}` to see which process holds the lock now: it is not a worker of this uWSGI, and the "
            "requests wait until it releases the lock"
        )
    if holder == 0:
        return (
            "Run `lsof FILE`, where FILE is the locked file: it lists the workers, and another program, which keeps "
            "the lock. End this program with `kill -9` (SIGTERM does not end programs that a thread of uWSGI started). "
            "The process that took the lock has ended, but this program still has the file open"
        )
    if of_all:
        pids = " ".join(map(str, list(workers)[:MOST_LOOKED_AT])) or "PIDS"
        return (
            f"Run `for pid in {pids}; do py-spy dump --pid $pid; done` to see at which line the threads wait, and "
            "which thread has passed that line: this thread holds the lock"
        )
    return (
        f"Run {show_calls(server)} to see at which line the threads wait, and what the thread that holds the lock does"
    )


MOST_LOOKED_AT = 8
"""The most workers that one command names."""


ENDLESS = (5.0, 10.0)
"""A worker goes on with none of its requests if each has been in service for so many seconds, and for so many times the
mean response time. While it completes others on threads that are free, they may be long polls, and have the time of a
stuck request."""


def _own_threads(figures: Figures, waits: WaitFigures) -> Finding:
    """Requests that wait for what other threads of their worker have to do, or for each other in a deadlock."""
    threads = waits.threads.get("lock", 0.0)
    seconds = max(ENDLESS[0], ENDLESS[1] * (figures.flow.response_time or 0.0))
    completing = {worker.worker_id for worker in figures.window.workers if worker.requests}
    standing = []
    for worker in figures.server.workers:
        goes_on = worker.worker_id in completing and len(worker.ages) != worker.threads
        least = figures.stuck_seconds if goes_on else seconds
        if worker.ages and all((age or 0.0) >= least for age in worker.ages.values()):
            standing.append(worker.worker_id)
    evidence = (
        f"{mean_count(threads)} of {mean_count(waits.total)} busy threads ({percent(waits.share('lock'))}) seem to "
        f"wait for a lock{of_request(waits, waits.each('lock'))}. No running request of the "
        "same worker could hold this lock."
    )
    alone = have_no_other_threads(figures)
    if standing:
        which = numbered("worker", standing)
        return Finding(
            code="waits_for_threads",
            severity="warning",
            title="Requests wait for other threads or for each other, and do not end.",
            evidence=f"{evidence} In {which}, all requests that are in service now have been in service for "
            f"{duration(seconds)} or longer.",
            meaning=f"{_CAUSES_ALONE if alone else _CAUSES} More threads would also hang. Requests that wait on "
            "purpose, such as long polls, are not a problem: they end by themselves.",
            clause="requests wait for other threads or for each other, and do not end",
            change=f"{_see_or_end(figures, standing)}. {_START if alone else ''}If requests wait for "
            "each other, change the code so that it takes the locks in the same order everywhere, and give each wait a "
            "timeout. Until you have done this, such requests can block the workers again after a restart."
            f"{'' if alone else f' {_START}'.rstrip()}",
        )
    if alone:
        return Finding(
            code="waits_for_threads",
            severity="warning" if _are_scarce(figures) else "info",
            title="Requests wait on locks or events until a timeout or another process ends the wait.",
            evidence=f"{evidence} The workers have no other threads.",
            meaning="A wait with a timeout, such as `Event().wait(seconds)`, is a sleep if nobody sets the event.",
            clause=WAIT_ALONE if is_lock_bound(figures) else "",
            change=f"Run {show_calls(figures.server)} to see at which lines the threads wait. If a wait there is a "
            "sleep, shorten it, or raise `threads`: each such request needs a thread, and no CPU. If it waits for "
            "another process, make that process faster first.",
        )
    return Finding(
        code="waits_for_threads",
        severity="warning" if _are_scarce(figures) else "info",
        title="Requests wait for background threads of their worker.",
        evidence=evidence,
        meaning="These requests wait for a thread that the application or a library has started, such as an executor, "
        "the consumer of a queue, or the event loop of a client library (gRPC, Cassandra). uwsgi-headroom "
        "cannot see what this thread does.",
        clause=WAIT_FOR_THREADS if is_lock_bound(figures) else "",
        change=f"Run {show_calls(figures.server)} to see what the worker's other threads do. Speed up their work, "
        "or let more of it run at once (for example, `max_workers` of an executor). More `threads` for requests help "
        "only if the background threads work for several requests at the same time, as those of gRPC do.",
    )


_CAUSES = (
    "Possible causes: a deadlock, in which two requests each hold a lock that the other request waits for; a lock, or "
    "a place in a pool, that was never released; a thread of the application that hangs; or a thread that does not "
    "exist in the workers, because it was started before uWSGI forked them."
)

_CAUSES_ALONE = (
    "These workers have no threads but those that serve requests. So the requests wait for a thread that does not "
    "exist in the workers, because it was started before uWSGI forked them; for each other, in a deadlock; or for a "
    "lock, or a place in a pool, that was never released."
)

_START = (
    "If the worker lacks the thread that the requests wait for, set `lazy-apps`, or start this thread in a function "
    "with `@postfork` (uwsgidecorators). "
)


def _see_or_end(figures: Figures, standing: list[int]) -> str:
    """What to do first about workers none of whose requests goes on: where nothing else is served, they have to end."""
    see = f"Run {show_calls(figures.server, standing[0])} to see at which lines the threads wait"
    if not is_standing(figures.flow):
        return f"{see}, and which other threads the worker has"
    workers = [worker for worker in figures.server.workers if worker.worker_id in standing]
    ended = f"{numbered('worker', standing)} with {end(figures.server, workers)}"
    return f"{see}, and which other threads the worker has, then end {ended}"


def _are_scarce(figures: Figures) -> bool:
    """Whether most threads are in use, or requests wait for one."""
    busy, ceiling = figures.flow.observed or 0.0, figures.ceiling or 0
    return busy >= THREADS_BUSY * ceiling or shows_a_limit(figures.flow)


def _own_answers(figures: Figures, waits: WaitFigures) -> Finding:
    """Requests that do not queue for a lock, as those of gRPC: that is no problem before threads are scarce."""
    is_cause = is_lock_bound(figures) and _are_scarce(figures)
    return Finding(
        code="application_lock",
        severity="warning" if is_cause else "info",
        title="Threads seem to wait for locks, but each for a different one.",
        evidence=f"On average, {mean_count(waits.threads['lock'])} of {mean_count(waits.total)} busy threads "
        f"({percent(waits.share('lock'))}) wait{of_request(waits, waits.each('lock'))}; no two threads of a worker "
        "wait for the same lock.",
        meaning="Each thread waits for an event of its own, such as a gRPC response, an item of a queue, or a free "
        "place in a pool.",
        clause="the threads wait, but each for a different lock" if is_cause else "",
        change=f"Run {show_calls(figures.server)} to see at which line the threads wait. Then speed up whatever they "
        "wait for, or provide more of it (such as places in a pool). Until you know what the threads wait for, do not "
        "add `threads`: the new threads may also wait.",
    )


def _pool(figures: Figures, waits: WaitFigures, size: int) -> Finding:
    """A pool of connections that has fewer of them than there are threads."""
    is_cause, threads = is_lock_bound(figures), max(each.threads or 0 for each in figures.server.workers)
    return Finding(
        code="pool_exhausted",
        severity="warning" if is_cause else "info",
        title=f"Threads wait for one of the {size} places in a pool.",
        evidence=f"On average, {mean_count(waits.threads.get('lock', 0.0))} of {mean_count(waits.total)} busy threads "
        f"({percent(waits.share('lock'))}) wait for a lock{of_request(waits, waits.each('lock'))}. Whenever threads of "
        f"a worker wait for this lock, exactly {size} other threads of the worker are sleeping or waiting for a "
        f"backend: the lock probably guards a pool with {size} places.",
        meaning=f"Only {size} requests of a worker run at once, and the other requests wait. Pools of connections, "
        "such as those of SQLAlchemy and of HTTP clients, have this effect. Do not add threads: they would also wait.",
        clause=f"the threads wait for one of the {size} places in a pool" if is_cause else "",
        change=f"Raise the size of the pool from {size} to {threads}, so that it equals the `threads` of a worker (in "
        f"SQLAlchemy: `pool_size` and `max_overflow`), if the backend can take {threads * len(figures.server.workers)} "
        "connections in total without getting slower. Otherwise, let requests hold a connection for less time.",
    )


def _holders(waits: WaitFigures) -> tuple[float, ...]:
    """The mean number of threads in each place that a thread may be in while it holds the lock that others wait for,
    and that has a finding of its own."""
    return waits.shared, waits.output


def _describe_lock(lock: LockFigures | None) -> str:
    """How much a lock is used and what it permits, as a sentence; empty if that is not known."""
    if lock is None or not lock.is_known:
        return ""
    where = (
        "Each worker has its own lock. In the worker whose lock is used most, threads "
        if lock.scope == "worker"
        else "Threads "
    )
    most = rate(lock.limit).removesuffix("/s")
    if lock.least_limit < lock.limit < lock.most_limit:
        most = f"{rate(lock.least_limit).removesuffix('/s')} to {rate(lock.most_limit).removesuffix('/s')}"
    return (
        f" {where}hold the lock for {percent(lock.hottest)} of the time. At most {most} requests per second can pass "
        "this lock."
    )


def _who_waits(lock: LockFigures | None, behind: str, *, of_all: bool) -> str:
    """What more threads and processes would do, as a sentence. behind: what the holder of the lock waits for."""
    if of_all:
        return "All processes share this lock: more threads or processes would also wait for it."
    if behind:
        return (
            "Additional threads would wait for the same lock. More `processes` help only if each process has its own "
            f"lock, and if {behind} does not limit them all."
        )
    if lock is None:
        return (
            "Additional threads would wait for the same lock. More `processes` help if each process has its own lock."
        )
    return (
        "Additional threads would wait for the same lock. More `processes` help, because each process has its own lock."
    )


def _held(figures: Figures) -> Iterator[Finding]:
    """Threads that wait for an interpreter lock that its holder keeps: one that does not compute, or one that computes
    in a single long call."""
    if figures.waits is None:
        return
    is_long = figures.waits.share("interpreter_lock") >= MOSTLY
    is_long &= (figures.waits.each("interpreter_lock") or 0.0) >= MOST_WAIT
    held = [worker for worker in figures.balance.active if _is_held(worker, REACHED if is_long else LITTLE)]
    if not held:
        return
    ready, running = (figures.waits.threads.get(state, 0.0) for state in ("cpu_wait", "cpu"))
    if ready > max(running, HOLDER_READY * len(held)) or waits_for_cpu(figures, CPU_WAIT):
        return  # the holders wait for a CPU: others report that
    worst = max(held, key=lambda worker: worker.lock_waiters or 0.0)
    holder = _describe_holder(figures, worst)
    yield Finding(
        code="interpreter_lock_held",
        severity="warning" if figures.waits.share("interpreter_lock") >= LOCKED else "info",
        title=f"Threads wait for the interpreter lock {holder.title}.",
        evidence=f"In worker {worst.worker_id}, {mean_count(worst.lock_waiters or 0.0)} threads wait for the lock, and "
        f"the worker uses {worst.interpreter_load:.2f} of a CPU; averaged over all workers, busy threads spend "
        f"{percent(figures.waits.share('interpreter_lock'))} of their time in this "
        f"wait{of_request(figures.waits, figures.waits.each('interpreter_lock'))}.{describe_own_threads(figures)}",
        meaning=holder.meaning,
        clause=holder.clause if figures.waits.share("interpreter_lock") >= LOCKED else "",
        **holder.advice._asdict(),
    )


class _LockHolder(NamedTuple):
    """What is said of the thread that holds an interpreter lock. title: the end of the finding's title."""

    title: str
    meaning: str
    clause: str
    advice: Advice


def _describe_holder(figures: Figures, worker: WorkerFigures) -> _LockHolder:
    """Who holds the interpreter lock of a worker: a thread that serves no request, a request that computes, or one that
    waits."""
    if find_cpu_of_own_threads(figures):
        return _LockHolder(
            "while background threads compute",
            "A thread that computes keeps the lock for another 5 ms after a request has asked for it. A request waits "
            "for these 5 ms each time that it needs the lock.",
            OWN_THREADS_COMPUTE,
            Advice(find_computing_thread(figures)),
        )
    see = f"Run {show_calls(figures.server, worker.worker_id)[:-1]} --native`"
    if _may_compute(worker, figures.server):
        return _LockHolder(
            "while calls of other requests compute",
            "A thread that runs Python code gives the lock to another one after 5 ms. A call into native code, such as "
            "a regular expression or the parser of a large document, keeps the lock until it ends.",
            "calls that compute hold the interpreter lock",
            Advice(
                f"{see} a few times to find the call that computes, and make it shorter. More `processes` leave more "
                "of the other requests unharmed, but only while CPUs are idle."
            ),
        )
    more = raise_processes(figures, is_modelled=False)
    return _LockHolder(
        "of a worker that uses little CPU",
        "The thread that holds the interpreter lock waits for something without releasing the lock. The usual cause is "
        "an extension module.",
        "a call that does not compute holds the interpreter lock",
        more._replace(
            change=f"{see} to find the call that holds the lock: an extension module makes this call. Until this call "
            f"is fixed, more processes help, because each process has its own interpreter lock. {more.change}."
        ),
    )


def _may_compute(worker: WorkerFigures, server: ServerRecord) -> bool:
    """Whether the worker computes for so long that all waiting for its lock can be in that time, in which all its other
    threads wait at most."""
    load = worker.interpreter_load or 0.0
    threads = next((each.threads for each in server.workers if each.worker_id == worker.worker_id), None)
    return load >= LITTLE or (worker.lock_waiters or 0.0) <= ((threads or 0) - 1) * load


def _is_held(worker: WorkerFigures, most: float) -> bool:
    """Whether threads wait for the lock of an interpreter that uses less than this of a CPU."""
    load = worker.interpreter_load
    return worker.lock_waiters is not None and queues_for_lock(worker) and load is not None and load < most


def _disagreement(figures: Figures) -> Iterator[Finding]:
    """Workers whose CPU use looks like a saturated interpreter, while no thread waits for its lock."""
    free = [worker for worker in figures.balance.active if _looks_bound(worker)]
    if not free:
        return
    worst = max(free, key=lambda worker: worker.interpreter_load or 0.0)
    yield Finding(
        code="computes_outside_the_lock",
        severity="info",
        title="Threads use most of a CPU without waiting for the interpreter lock.",
        evidence=f"Worker {worst.worker_id} uses {worst.interpreter_load:.2f} of a CPU; of "
        f"{mean_count(worst.concurrency or 0)} requests in service, {worst.lock_waiters:.2f} wait for the interpreter "
        "lock.",
        meaning="The threads compute in a library that releases the interpreter lock, such as numpy or a compression "
        "library. The interpreter is therefore not saturated, although the worker uses much CPU.",
        change="For this kind of work, add CPUs, not `processes`.",
    )


def _looks_bound(worker: WorkerFigures) -> bool:
    return (worker.interpreter_load or 0.0) >= REACHED and is_contended(worker) is False
