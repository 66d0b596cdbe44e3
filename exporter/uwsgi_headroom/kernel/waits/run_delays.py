"""Divides the time of threads that run or could run into the time on a CPU and the wait for one."""

from __future__ import annotations

from uwsgi_headroom.kernel import procfs

_MOST_KNOWN = 65536
"""Beyond so many threads, all are forgotten: they are those of a process that starts threads again and again."""


class RunDelays:
    """Divides the time of threads that run or could run into both: the kernel counts a thread's CPU time and its wait
    for a CPU (`schedstat` in Documentation/scheduler/sched-stats.rst)."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], tuple[int, int]] = {}

    def part_waiting(self, pid: int, thread: int) -> float:
        """The part of a thread's runnable time, since this was last asked, in which it waited for a CPU; 0 if the
        kernel does not count it."""
        try:
            ran, waited = map(int, procfs.KEPT.read_line(f"/proc/{pid}/task/{thread}/schedstat").split()[:2])
        except (OSError, ValueError):
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
