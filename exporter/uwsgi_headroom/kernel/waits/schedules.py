"""What the kernel's counts of a thread's schedule say (`schedstat` in Documentation/scheduler/sched-stats.rst): for how
long it waits for a CPU, and for how long it sleeps at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

from uwsgi_headroom.kernel import procfs

_MOST_KNOWN = 65536
"""Beyond so many threads, all are forgotten: they are those of a process that starts threads again and again."""


def read_schedule(pid: int, thread: int) -> tuple[int, int, int]:
    """The nanoseconds that a thread ran, and that it waited for a CPU, and how often it was put on one; 0 if it has
    ended, or the kernel does not count that."""
    try:
        ran, waited, runs = map(int, procfs.KEPT.read_line(f"/proc/{pid}/task/{thread}/schedstat").split())
        return ran, waited, runs
    except (OSError, ValueError):
        return 0, 0, 0


def read_written(pid: int, thread: int) -> int | None:
    """The bytes that a thread has written; None if that is unknown."""
    try:
        return int(procfs.read_line(f"/proc/{pid}/task/{thread}/io").split()[3])
    except (OSError, ValueError, IndexError):
        return None


class RunDelays:
    """Divides the time of threads that run or could run into the time on a CPU and the wait for one."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], tuple[int, int]] = {}

    def part_waiting(self, pid: int, thread: int) -> float:
        """The part of a thread's runnable time, since this was last asked, in which it waited for a CPU; 0 if the
        kernel does not count it."""
        ran, waited, _ = read_schedule(pid, thread)
        if not ran and not waited:
            return 0.0
        ran_before, waited_before = self._last.get((pid, thread), (0, 0))
        if len(self._last) > _MOST_KNOWN:
            self._last.clear()
        self._last[pid, thread] = ran, waited
        runnable = ran - ran_before + waited - waited_before
        return max(0.0, min(1.0, (waited - waited_before) / runnable)) if runnable > 0 else 0.0

    def forget(self, pid: int) -> None:
        """Forget the threads of a process that has ended."""
        self._last = {key: value for key, value in self._last.items() if key[0] != pid}


LEAST_SECONDS = 1.0
"""The thread seconds of sleep from which on the length of a nap is known."""

_MOST = 8
"""Threads that are followed at a time, 5 µs each in a sample: any of them try as often as the others."""

_REMEMBERED = 100.0
"""Beyond so many, older ones count for half."""

_LONGEST_GAP = 1.0
"""Between two samples that are further apart, a thread may have done anything."""


class Naps:
    """How long the threads of one server sleep at a time.

    A request that sleeps once lasts as long as the application says. One that sleeps again and again tries again for
    something that others have, such as a lock of SQLite or a lock file: more threads would only try more often. The
    kernel counts how often each thread was put on a CPU: a thread that sleeps in two samples, between which its worker
    completed no request, slept that often. Without uWSGI's counts, it is a thread that wrote nothing.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._before: dict[tuple[int, int], tuple[int, int, float]] = {}
        self._now: dict[tuple[int, int], tuple[int, int, float]] = {}
        self._naps = self._seconds = 0.0
        self._places = most

    def begin(self) -> None:
        """A new sample begins."""
        self._before, self._now = self._now, {}
        self._places = self._most - len(self._before)

    def note(self, pid: int, thread: int, requests: int | None, now: float) -> None:
        """Add a thread that sleeps. requests: how many its worker has completed, None if unknown; now: monotonic
        seconds."""
        before = self._before.get((pid, thread))
        if before is None:
            if not self._places:
                return
            self._places -= 1
        *_, runs = read_schedule(pid, thread)
        if not runs:
            return
        if requests is None:
            requests = read_written(pid, thread) or 0
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


OLD_SECONDS, _STILL_SECONDS, _LOOK_SECONDS = 10.0, 30.0, 1.0
"""A request of this age is followed; it does not go on if its thread has written nothing for so long, as event streams
send a comment every 15 s or so; and the time between two looks, 6 µs for each thread."""

_MOST_OLD = 256
_NEVER = 0, 0.0


class Streams:
    """Finds the old requests of one server that go on, as event streams do: their threads still write. uWSGI counts the
    bytes of a response only when it has ended; the kernel counts what each thread writes (proc_pid_io(5))."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], tuple[int, float]] = {}
        self._looked_at = 0.0
        self.going_on: tuple[tuple[int, int], ...] = ()
        """What was found last."""

    def is_due(self, now: float) -> bool:
        return abs(now - self._looked_at) >= _LOOK_SECONDS

    def find(self, old: Mapping[tuple[int, int], tuple[int, int]], now: float) -> tuple[tuple[int, int], ...]:
        """Those of the old requests that go on. old: the process and the thread of each; now: epoch seconds."""
        self._looked_at = now
        self._seen = {each: self._look(*each, now) for each in list(old.values())[:_MOST_OLD]}
        seen = self._seen
        self.going_on = tuple(each for each, at in old.items() if now - seen.get(at, _NEVER)[1] < _STILL_SECONDS)
        return self.going_on

    def _look(self, pid: int, thread: int, now: float) -> tuple[int, float]:
        """The bytes that a thread has written, and when it was last seen to have written more."""
        written = read_written(pid, thread)
        if written is None:
            return _NEVER
        before, at = self._seen.get((pid, thread), (written, 0.0))
        return written, now if written > before else at
