"""Judges whether threads wait for their interpreter's lock: measured where the kernel shows it, else inferred.

Inferred: an interpreter that uses nearly a whole CPU is saturated, because CPython's lock lets one thread run at a
time. That is wrong for work that a library does without the lock. Measured: the threads that wait for the lock.
"""

from __future__ import annotations

from uwsgi_headroom.analysis.balance import WorkerFigures

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
