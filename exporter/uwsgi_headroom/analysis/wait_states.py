"""Computes what requests spend their time on, and judges whether they wait for their interpreter's lock.

Both rest on what the threads were seen to wait for. Where the kernel does not show that, the wait for the lock is
inferred: an interpreter that uses nearly a whole CPU is saturated, because CPython's lock lets one thread run at a
time. That is wrong for work that a library does without the lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from uwsgi_headroom.analysis.balance import WorkerFigures
from uwsgi_headroom.analysis.littles_law import Flow, ratio
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.record import ServerRecord, State


@dataclass(frozen=True, slots=True)
class WaitFigures:
    """What requests spend their time on in a window."""

    threads: Mapping[State, float]
    """The mean number of threads in each state that was seen; their sum, `total`, is the concurrency."""
    backends: Mapping[str, float]
    """The same for configured backends, by name."""
    per_request: Mapping[State, float] | None
    """Seconds of a mean request in each state, and for each backend; None without completed requests. By Little's law,
    a mean of L threads in a state at λ requests per second is L/λ per request (J. D. C. Little, Operations Research 9
    (3), 1961); so the sum is the response time, if requests neither pile up nor get lost."""
    backends_per_request: Mapping[str, float] | None
    total: float
    disagreement: float
    """Mean difference, in threads, between the kernel and uWSGI's document at one instant."""

    def share(self, state: State) -> float:
        """The share of the threads' time in a state, 0 to 1."""
        return self.threads.get(state, 0.0) / self.total if self.total else 0.0


def list_gaps(server: ServerRecord) -> tuple[str, ...]:
    """Why it is unknown, at all or in part, what the threads wait for, as sentences for an operator; empty if it is
    known."""
    if server.waits is None:
        return (server.processes_off or "off: enable it with --waits true",)
    return (server.waits.off,) if server.waits.off else server.waits.gaps


def largest_backend(waits: WaitFigures) -> str | None:
    """The named backend for which most threads wait; None if none is named or waited for."""
    name = max(waits.backends, key=lambda name: waits.backends[name], default=None)
    return name if name is not None and waits.backends[name] else None


def compute_waits(window: Window, flow: Flow) -> WaitFigures | None:
    """The figures of a window; None unless the kernel said for the whole window what the threads wait for."""
    waits = window.waits
    if waits is None:
        return None
    threads = {state: seconds / waits.observed_seconds for state, seconds in waits.seconds.items()}
    backends = {name: seconds / waits.observed_seconds for name, seconds in waits.backends.items()}
    throughput = flow.throughput
    return WaitFigures(
        threads=threads,
        backends=backends,
        per_request={state: number / throughput for state, number in threads.items()} if throughput else None,
        backends_per_request={name: number / throughput for name, number in backends.items()} if throughput else None,
        total=sum(threads.values()),
        disagreement=ratio(waits.disagreement_seconds, waits.observed_seconds) or 0.0,
    )


LOCK_WAIT = 1.0
"""At or above this mean number of waiting threads, requests queue for the interpreter. Where that is not measured, it
is the number of requests in service beyond the one that the interpreter runs."""

CONTENDED = 0.05
"""The share of a worker's requests in service below which hardly any waits for the lock."""


def is_contended(worker: WorkerFigures) -> bool | None:
    """Whether the lock limits a worker that uses nearly a whole CPU; None if that is not measured, or if it has too few
    requests at once to tell: a single thread saturates an interpreter without waiting."""
    waiting, load = worker.lock_waiters, worker.interpreter_load or 0.0
    if waiting is None or (worker.concurrency or 0.0) < load + LOCK_WAIT:
        return None
    return waiting >= CONTENDED * (worker.concurrency or 0.0)


def queues_for_lock(worker: WorkerFigures) -> bool:
    """Whether requests queue for the worker's interpreter lock."""
    if worker.lock_waiters is not None:
        return worker.lock_waiters >= LOCK_WAIT
    return (worker.concurrency or 0.0) >= (worker.interpreter_load or 0.0) + LOCK_WAIT
