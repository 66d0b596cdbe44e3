"""Findings about what requests wait for: backends, slow clients, locks; or that advice needs to know it."""

from __future__ import annotations

from collections.abc import Iterator

from uwsgi_headroom.analysis.advice import MOSTLY, lacks_evidence
from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.capacity import REACHED
from uwsgi_headroom.analysis.figures import Figures
from uwsgi_headroom.analysis.findings.finding import Finding
from uwsgi_headroom.analysis.findings.limits import THREADS_BUSY
from uwsgi_headroom.analysis.littles_law import shows_a_limit
from uwsgi_headroom.analysis.wait_states import WaitFigures, is_contended, largest_backend, list_gaps, queues_for_lock
from uwsgi_headroom.analysis.worker_states import name_slots
from uwsgi_headroom.record import State
from uwsgi_headroom.words.formats import duration, percent

USED = 0.5
"""The share of the threads in use from which on it matters what they wait for: below, there is room in any case."""

SLOW_CLIENTS = (0.1, 0.25)
"""The share of the available threads that wait for clients which is good to know, and which is a warning."""

LOCKED = 0.25
"""The share of the threads' time in locks of the application from which on they are a finding."""

HOLDER_READY = 0.5
"""The part of the time in which the holder of a lock waits for a CPU from which on that is why others wait."""

LEAST_THREADS = 1.0
"""Fewer threads than this, on average, are no finding in any state."""


def find(figures: Figures) -> Iterator[Finding]:
    """The findings about what requests wait for; where it is not known, that it is needed for advice."""
    waits = figures.waits
    yield from _not_known(figures)
    if waits is None:
        return
    yield from _clients(figures, waits)
    yield from _locks(waits)
    yield from _held(figures)
    yield from _backends(figures, waits)
    yield from _disagreement(figures)


def _not_known(figures: Figures) -> Iterator[Finding]:
    """What the advice on capacity lacks: how to see permanently what the threads wait for."""
    used = (figures.flow.observed or 0.0) / figures.ceiling if figures.ceiling else 0.0
    if not (used >= THREADS_BUSY or shows_a_limit(figures.flow)) or not lacks_evidence(figures):
        return
    gaps = list_gaps(figures.server) or ("it is known for a part of this time only",)
    why, _, remedy = (gaps[0], "", "") if figures.server.processes_off else gaps[0].partition(": ")
    yield Finding(
        code="waits_not_known",
        severity="info",
        title="What the threads wait for is not known, and so neither whether more threads would help.",
        evidence=f"{why[0].upper()}{why[1:]}.",
        meaning="More threads help requests that wait for a backend with room to spare. For one lock, a full backend "
        "or slow clients, they only wait as well.",
        change=f"To see it permanently: {remedy}." if remedy else "",
    )


def _clients(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    threads, available = waits.threads.get("client", 0.0), figures.available or 0
    known, warning = SLOW_CLIENTS
    if threads < LEAST_THREADS or threads < known * available:
        return
    yield Finding(
        code="slow_clients",
        severity="warning" if threads >= warning * available else "info",
        title=f"{threads:.1f} of {available} threads wait for slow clients.",
        evidence=f"{percent(waits.share('client'))} of the threads' time goes into sending to clients and receiving "
        f"from them{_each(waits, 'client')}.",
        meaning="A thread that waits for a client serves no other request; a few slow clients can take all of them.",
        change="Let the web server in front buffer requests and responses, as nginx does by default: more threads "
        "would only be taken as well.",
    )


def _locks(waits: WaitFigures) -> Iterator[Finding]:
    threads, share = waits.threads.get("lock", 0.0), waits.share("lock")
    if threads < LEAST_THREADS or share < LOCKED:
        return
    yield Finding(
        code="application_lock",
        severity="warning" if share >= MOSTLY else "info",
        title=f"{threads:.1f} threads wait for a lock of the application.",
        evidence=f"{percent(share)} of the threads' time{_each(waits, 'lock')}. It is not the interpreter lock.",
        meaning="Requests wait for each other: whatever holds the lock is done by one request at a time.",
        change="Find the lock with `py-spy dump` and hold it for less time. More threads would wait for it as well; "
        "more `processes` help if each of them has its own.",
    )


def _held(figures: Figures) -> Iterator[Finding]:
    """Threads that wait for an interpreter lock whose holder does not compute."""
    held = [worker for worker in figures.balance.active if _is_held(worker)]
    if not held or figures.waits is None:
        return
    ready, running = (figures.waits.threads.get(state, 0.0) for state in ("cpu_wait", "cpu"))
    if ready > max(running, HOLDER_READY * len(held)):
        return  # the holders wait for a CPU: others report that
    worst = max(held, key=lambda worker: worker.lock_waiters or 0.0)
    yield Finding(
        code="interpreter_lock_held",
        severity="warning" if figures.waits.share("interpreter_lock") >= LOCKED else "info",
        title=f"{worst.lock_waiters:.1f} threads of worker {worst.worker_id} wait for its interpreter lock, but it "
        f"uses only {worst.interpreter_load:.2f} of a CPU.",
        evidence=f"{percent(figures.waits.share('interpreter_lock'))} of all threads' time"
        f"{_each(figures.waits, 'interpreter_lock')}.",
        meaning="The thread that holds the lock waits for something itself. An extension module that does not release "
        "the lock does that.",
        change="Find it with `py-spy dump --native`: the holder is in a call of an extension. Raise `processes` until "
        "that is solved: each has a lock of its own.",
    )


def _is_held(worker: WorkerFigures) -> bool:
    load = worker.interpreter_load
    return worker.lock_waiters is not None and queues_for_lock(worker) and load is not None and load < 0.7 * REACHED


def _backends(figures: Figures, waits: WaitFigures) -> Iterator[Finding]:
    threads, share = waits.threads.get("backend", 0.0), waits.share("backend")
    if share < MOSTLY or threads < max(LEAST_THREADS, USED * (figures.available or 0)):
        return
    slots = name_slots(figures.server)
    named = largest_backend(waits)
    address = (figures.server.waits.addresses if figures.server.waits else {}).get(named or "", "")
    what = "backends"
    if named and waits.backends[named] >= MOSTLY * threads:
        what = f"{named} ({address})" if address else named
    part = waits.backends[named] / waits.total if named and what != "backends" else share
    yield Finding(
        code="waits_for_backend",
        severity="info",
        title=f"{percent(part)} of the {slots}' time is spent waiting for {what}.",
        evidence=f"{threads:.1f} of {figures.available or 0} {slots} wait for other servers{_each(waits, 'backend')}.",
        meaning="Such requests hold a thread and no CPU.",
        change=f"Faster queries, or more `threads`: not more CPU. See first that {what} can take more at once.",
    )


def _disagreement(figures: Figures) -> Iterator[Finding]:
    """Workers whose CPU use looks like a saturated interpreter, while no thread waits for its lock."""
    free = [worker for worker in figures.balance.active if _looks_bound(worker)]
    if not free:
        return
    worst = max(free, key=lambda worker: worker.interpreter_load or 0.0)
    yield Finding(
        code="computes_outside_the_lock",
        severity="info",
        title=f"Worker {worst.worker_id} uses {worst.interpreter_load:.2f} of a CPU, and its threads do not wait for "
        "its interpreter lock.",
        evidence=f"{worst.concurrency or 0:.1f} requests in service, {worst.lock_waiters:.2f} of them wait for it.",
        meaning="It computes in a library that releases the lock, as compression and numpy do. Its CPU use alone would "
        "look like a saturated interpreter.",
        change="Add CPUs rather than `processes` for such work.",
    )


def _looks_bound(worker: WorkerFigures) -> bool:
    return (worker.interpreter_load or 0.0) >= REACHED and is_contended(worker) is False


def _each(waits: WaitFigures, state: State) -> str:
    """The time of a mean request in a state, as the end of a clause."""
    times = waits.per_request
    if times is None or state not in times:
        return ""
    return f", {duration(times[state])} of a request's {duration(sum(times.values()))}"
