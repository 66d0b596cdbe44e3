"""Integrates what the request threads wait for: linear between two samples, as for the number of busy threads."""

from __future__ import annotations

from uwsgi_headroom.history.totals import Totals, WaitTotals
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record.waits import STATES, Waits

_NONE = Waits(off="not looked at")


def add_waits(totals: Totals, before: Reading | None, reading: Reading, step: float) -> None:
    """Add the `step` seconds between two samples to the totals; 0 if the time between them is a gap."""
    now = reading.host.waits
    if now is None or now.off is not None:
        if totals.waits is not None:
            totals.waits.since = None
        return
    waits = totals.waits = totals.waits or WaitTotals()
    for name in now.backends:
        waits.backends.setdefault(name, 0.0)
    then = (before.host.waits if before else None) or _NONE
    if waits.since is None or then.off is not None:
        waits.since = reading.at
        return
    half = step / 2
    waits.observed_seconds += step
    waits.disagreement_seconds += half * (_disagreement(then) + _disagreement(now))
    for levels in (then, now):
        for state, number in levels.threads.items():
            waits.seconds[_PLACES[state]] += half * number
        for name, number in levels.backends.items():
            waits.backends[name] = waits.backends.get(name, 0.0) + half * number
        for worker_id, number in levels.interpreter_lock.items():
            if worker_id <= len(totals.workers):
                totals.workers[worker_id - 1].interpreter_lock_seconds += half * number


_PLACES = {state: place for place, state in enumerate(STATES)}


def _disagreement(waits: Waits) -> float:
    """By how many threads the kernel and uWSGI's document differ."""
    return abs(sum(waits.threads.values()) - waits.busy)
