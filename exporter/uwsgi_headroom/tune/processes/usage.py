"""Reads how much CPU and memory a run uses: of the machine, and of processes with all their descendants."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.cpus import parse_stat
from uwsgi_headroom.tune.processes import guard

SAMPLE_SECONDS = 0.25
"""The shortest time between two samples of CPU time, and of memory."""

_MOST_CPU = 0.02
"""The share of a CPU that sampling each of the two may take: for memory, the kernel walks the page tables of each
process."""

_TICKS = os.sysconf("SC_CLK_TCK")
_OWN, _WAITED_FOR = (11, 12), (13, 14)  # utime and stime, cutime and cstime: fields 14 to 17 of proc_pid_stat(5)


@dataclass(frozen=True, slots=True)
class CpuUse:
    """CPU time in seconds since the start: idle and used by each CPU of the machine, and by each guarded tree."""

    at: float
    idle: dict[int, float]
    used: dict[int, float]
    trees: tuple[float, ...]

    def since(self, before: CpuUse) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
        """Return the busy part of each CPU, 0 to 1, and the CPUs that each tree used since an earlier reading."""
        parts = []
        for cpu in sorted(self.used.keys() & before.used.keys()):
            used = max(0.0, self.used[cpu] - before.used[cpu])
            total = used + max(0.0, self.idle[cpu] - before.idle[cpu])
            parts.append(used / total if total else 0.0)
        seconds = self.at - before.at
        return tuple(parts), tuple(
            max(0.0, now - then) / seconds for now, then in zip(self.trees, before.trees, strict=True)
        )


class CpuMeter:
    """The CPU time that was used since the meter was made, as of its latest reading."""

    def __init__(self, guards: Sequence[int]) -> None:
        self._guards = guards
        self._first = self._latest = read_cpu(guards)
        self._next_at = self._first.at + SAMPLE_SECONDS

    def read(self) -> None:
        """Read again, unless the latest reading is young, or a guard is gone and the time of its processes with it."""
        if time.monotonic() < self._next_at:
            return
        began = time.thread_time()
        with contextlib.suppress(KeyError):
            self._latest = read_cpu(self._guards)
        self._next_at = self._latest.at + _pause(time.thread_time() - began)

    def use(self) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
        """Return the busy part of each CPU of the machine, 0 to 1, and the CPUs that the processes below each guard
        used; None if there was one reading only."""
        if self._latest is self._first:
            return (), (None,) * len(self._guards)
        return self._latest.since(self._first)


def read_cpu(guards: Sequence[int]) -> CpuUse:
    """Read the CPU time of the machine, and of the processes below each of these guards.

    A process that has ended is in the time of the one that waited for it, in the end the guard. Missing are only
    children of a process that ignores SIGCHLD. Raises KeyError if a guard is gone.
    """
    stats = guard.read_stats()
    trees = tuple(
        _seconds(stats[pid], _WAITED_FOR)
        + sum(_seconds(stats[each], _OWN + _WAITED_FOR) for each in guard.descendants(pid, stats))
        for pid in guards
    )
    idle, used = parse_stat(procfs.read_file("/proc/stat"))
    return CpuUse(time.monotonic(), idle, used, trees)


def _seconds(fields: list[bytes], wanted: Iterable[int]) -> float:
    return sum(int(fields[field]) for field in wanted) / _TICKS


def _pause(cost: float) -> float:
    """The seconds until the next sample, if the last one took this much CPU time."""
    return max(SAMPLE_SECONDS, cost / _MOST_CPU)


def read_memory(pids: Iterable[int]) -> int | None:
    """Return the bytes that processes take together: the sum of their proportional set sizes (PSS, `smaps_rollup` of
    proc(5)), which counts a page that n processes share as a part of n. None if none can be read."""
    total = None
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):  # the process has ended, or belongs to another user
            for line in procfs.read_file(f"/proc/{pid}/smaps_rollup").splitlines():
                if line.startswith(b"Pss:"):
                    total = (total or 0) + 1024 * int(line.split()[1])
                    break
    return total


class MemoryPeak:
    """The most memory that processes took together in any sample, in bytes; None if unknown."""

    def __init__(self, pids: Callable[[], list[int]]) -> None:
        self._pids = pids
        self.largest: int | None = None

    def sample(self) -> float:
        """Sample once; return the seconds to wait until the next sample."""
        began = time.thread_time()
        size = read_memory(self._pids())
        if size is not None:
            self.largest = max(size, self.largest or 0)
        return _pause(time.thread_time() - began)


@contextlib.contextmanager
def watching_memory(pids: Callable[[], list[int]]) -> Iterator[MemoryPeak]:
    """Sample the memory of processes during the block, a few times a second."""
    peak, done = MemoryPeak(pids), threading.Event()

    def watch() -> None:
        while not done.wait(peak.sample()):
            pass

    thread = threading.Thread(target=watch, name="memory", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
