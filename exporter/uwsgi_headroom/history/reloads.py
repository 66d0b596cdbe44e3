"""Recognizes a full reload of uWSGI, which resets its counters, between two readings.

A reload is visible: either a worker was spawned but its count of spawns did not grow, or the number of slots changed,
which a master never does. A count of requests may also decrease because of a race in uWSGI (two threads, one unlocked
++), but only by a little.
"""

from __future__ import annotations

from uwsgi_headroom.stats.server import Worker

LARGEST_RACE = 16
"""The largest decrease of a worker's own request count that may be due to a race. One or two are plausible."""


def is_reload(before: tuple[Worker, ...], now: tuple[Worker, ...]) -> bool:
    """Whether uWSGI's master was reloaded in between: every spawn increments a worker's respawns, but a reload resets
    them."""
    if not before or now is before:
        return False
    return len(before) != len(now) or any(_has_restarted(then, later) for then, later in zip(before, now, strict=True))


def _has_restarted(then: Worker, now: Worker) -> bool:
    if then.requests is not None and now.requests is not None and now.requests < then.requests - LARGEST_RACE:
        return True
    if then.respawns is None or now.respawns is None:
        return False
    # Spawn times are whole seconds, so only the pid shows a second spawn within one second.
    spawned = now.last_spawn != then.last_spawn or (then.pid and now.pid and now.pid != then.pid)
    return now.respawns < then.respawns or (now.respawns == then.respawns and bool(spawned))
