"""Adds what the threads of a server wait for to its totals, by linear interpolation between two samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeVar

from uwsgi_headroom.history.totals import Totals, WaitTotals, WorkerTotals
from uwsgi_headroom.record import STATES, LoopUse, Waits

_NO_WAITS = Waits(off="not looked at")


def add_waits(totals: Totals, before: Waits | None, after: Waits | None, at: float, step: float) -> None:
    """Add the `step` seconds between two samples to the totals; 0 if the time between them is a gap."""
    then, now = before or _NO_WAITS, after or _NO_WAITS
    if now.file_lock or then.file_lock:
        known = step * bool(now.file_lock and then.file_lock)
        held = sum([bool(lock and lock.held) for lock in (then.file_lock, now.file_lock)])
        totals.file_lock_seconds = (totals.file_lock_seconds or 0.0) + known
        totals.file_lock_held_seconds = (totals.file_lock_held_seconds or 0.0) + known / 2 * held
    if now.loops is not None:
        _add_loops(totals.workers, then.loops or {}, now.loops, step)
    if now.off is not None:
        if totals.waits is not None:
            totals.waits.since = None
        return
    waits = totals.waits = totals.waits or WaitTotals()
    for name in now.backends:
        waits.backends.setdefault(name, 0.0)
    for total in totals.workers:
        note_since(total, "lock_held_since", at, is_known=now.reads_locks)
    totals.shared_connection_seconds = totals.shared_connection_seconds or 0.0
    totals.output_blocked_seconds = totals.output_blocked_seconds or 0.0
    if waits.since is None or then.off is not None:
        waits.since = at
    else:
        _add_wait_levels(totals, waits, then, now, step)


def _add_wait_levels(totals: Totals, waits: WaitTotals, then: Waits, now: Waits, step: float) -> None:
    half, shared, output = step / 2, totals.shared_connection_seconds or 0.0, totals.output_blocked_seconds or 0.0
    waits.observed_seconds += step
    for levels in (then, now):
        waits.disagreement_seconds += half * abs(sum(levels.threads.values()) - levels.busy)
        for state, number in levels.threads.items():
            waits.seconds[_PLACES[state]] += half * number
        for name, number in levels.backends.items():
            waits.backends[name] = waits.backends.get(name, 0.0) + half * number
        for total, number in _by_worker(totals.workers, levels.interpreter_lock):
            total.interpreter_lock_seconds += half * number
    totals.shared_connection_seconds = shared + half * (then.shared + now.shared)
    totals.output_blocked_seconds = output + half * (then.output + now.output)
    if then.locks and now.locks:
        both = {worker_id: (then.locks[worker_id], now.locks[worker_id]) for worker_id in then.locks.keys() & now.locks}
        for total, uses in _by_worker(totals.workers, both):
            total.lock_seconds += step
            total.lock_waited_seconds += half * sum([use.waited for use in uses])
            total.lock_held_seconds += half * sum([bool(use.held) for use in uses])


_Of = TypeVar("_Of")


def _by_worker(workers: Sequence[WorkerTotals], known: Mapping[int, _Of]) -> list[tuple[WorkerTotals, _Of]]:
    """What is known of workers by their ids, without those that a reload has removed."""
    return [(workers[worker_id - 1], each) for worker_id, each in known.items() if worker_id <= len(workers)]


def _add_loops(
    workers: Sequence[WorkerTotals], then: Mapping[int, LoopUse], now: Mapping[int, LoopUse], step: float
) -> None:
    for total in workers:
        total.loop_held_seconds = total.loop_held_seconds or 0.0
    for total, use in chain(_by_worker(workers, then), _by_worker(workers, now)):
        total.loop_held_seconds = (total.loop_held_seconds or 0.0) + step / 2 * use.held


_PLACES = {state: place for place, state in enumerate(STATES)}


def note_since(total: WorkerTotals, since: str, at: float, *, is_known: bool) -> None:
    """Update the start of the time in which something is known of a worker, which the field `since` has."""
    if not is_known or getattr(total, since) is None:
        setattr(total, since, at if is_known else None)
