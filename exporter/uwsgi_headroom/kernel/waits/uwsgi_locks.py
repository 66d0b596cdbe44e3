"""Finds the mule that holds a lock of `uwsgi.lock()` for which requests wait.

Workers and mules share these locks (a spooler may not take one: uWSGI raises ValueError), and a dump of the workers
does not show what a mule does. uWSGI's document has the PID of each holder, or 0 for a moment if the lock has just
changed hands. So the process counts that most samples have. It has to be a child of the master here: a document may
name any.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from uwsgi_headroom.kernel.processes import list_children
from uwsgi_headroom.record import LockHolder
from uwsgi_headroom.stats.server import Snapshot

LEAST_SAMPLES = 20.0
"""So many samples have to be seen in which requests wait for a lock of all processes."""

MOST_OF_THEM = 0.5
"""The part of these samples from which on a process counts as what requests wait for."""

_REMEMBERED = 200.0
"""Beyond so many samples, older ones count for half."""

_NAME = re.compile(r"user (\d{1,6})")


class UwsgiLocks:
    """Counts the holders of the locks of one server."""

    def __init__(self) -> None:
        self._samples = 0.0
        self._held: Counter[tuple[int, int]] = Counter()  # by the lock's number and the holder's PID

    def note(self, locks: Mapping[str, int] | None) -> None:
        """Add a sample in which requests wait for such a lock."""
        if self._samples >= _REMEMBERED:
            self._samples /= 2
            self._held = Counter({key: number // 2 for key, number in self._held.items() if number > 1})
        self._samples += 1
        for name, pid in (locks or {}).items():
            if pid and (lock := _NAME.fullmatch(name)):
                self._held[int(lock[1]), pid] += 1

    def find(self, master_pid: int, snapshot: Snapshot) -> LockHolder | None:
        """The mule that holds one of them most of the time; None if there is none."""
        workers = {worker.pid for worker in snapshot.workers}
        for (lock, pid), number in self._held.most_common(1):
            if self._samples < LEAST_SAMPLES or number < MOST_OF_THEM * self._samples or pid in workers:
                return None
            if pid in list_children(master_pid):
                return LockHolder(pid, lock, number / self._samples)
        return None
