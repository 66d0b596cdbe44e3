"""Measures for how long threads sleep at a time within one request.

A request that sleeps once lasts as long as the application says. One that sleeps again and again tries again for
something that others have, such as a lock of SQLite or a lock file: more threads would only try more often. The kernel
counts how often each thread was put on a CPU (`schedstat` in Documentation/scheduler/sched-stats.rst): a thread that
sleeps in two samples, between which its worker completed no request, slept so many times in between.
"""

from __future__ import annotations

from uwsgi_headroom.kernel import procfs

LEAST_SECONDS = 1.0
"""The thread seconds of sleep from which on the length of a nap is known."""

_MOST = 16
"""Threads that are followed at a time, 5 µs each in a sample: any of them try as often as the others."""

_REMEMBERED = 20.0
"""Beyond so many, older ones count for half."""

_LONGEST_GAP = 1.0
"""Between two samples that are further apart, a thread may have done anything."""


class Naps:
    """How long the threads of one server sleep at a time."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, int], tuple[int, int, float]] = {}
        self._now: dict[tuple[int, int], tuple[int, int, float]] = {}
        self._naps = self._seconds = 0.0
        self._places = _MOST

    def begin(self) -> None:
        """A new sample begins."""
        self._before, self._now = self._now, {}
        self._places = _MOST - len(self._before)

    def note(self, pid: int, thread: int, requests: int, now: float) -> None:
        """Add a thread that sleeps. requests: how many its worker has completed; now: monotonic seconds."""
        before = self._before.get((pid, thread))
        if before is None:
            if not self._places:
                return
            self._places -= 1
        try:
            runs = int(procfs.KEPT.read_line(f"/proc/{pid}/task/{thread}/schedstat").split()[2])
        except (OSError, ValueError, IndexError):
            return
        self._now[pid, thread] = runs, requests, now
        if before is None or before[1] != requests or not 0 < now - before[2] <= _LONGEST_GAP or runs < before[0]:
            return
        self._naps += runs - before[0]
        self._seconds += now - before[2]
        if self._seconds > _REMEMBERED:
            self._naps, self._seconds = self._naps / 2, self._seconds / 2

    @property
    def length(self) -> float | None:
        """Seconds; infinite if no thread woke up within a request, None if too few were seen."""
        if self._seconds < LEAST_SECONDS:
            return None
        return self._seconds / self._naps if self._naps else float("inf")
