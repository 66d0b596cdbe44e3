"""What one more worker of a server takes: the memory that its workers have for themselves alone.

Two sources. `uss`, the unique set size: the private pages of a process, from `/proc/<pid>/smaps_rollup`; it is what
ending the worker would free. To read it, a process needs the privilege to trace the worker, and the kernel walks the
worker's page tables. `anonymous`: all anonymous pages, which everybody may know. It is an upper bound, because pages
that a worker still shares with its master, copied on write, count in full.

A worker grows for some time after its start, so what counts is the most that each living process was seen with.

To walk the page tables of a worker of 50 MB took 0.8 ms of CPU, those of 1 GB in small pages 10 ms. Of 64 workers of
50 MB, all memory facts took 3 ms a minute, what is available included (Linux 6.18, 2 CPUs).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.processes import WorkerProcess

ROOT = Path("/")

USS_SECONDS = 60.0
"""How often one worker of a server is asked for its unique memory, each in turn."""

LONGEST_WALK = 0.05
"""CPU seconds that one walk of page tables may take, which is 5 GB in small pages. A longer one costs a thousandth of a
CPU and holds up the reading of every other server, so the server's anonymous memory has to do from then on."""

Source = Literal["uss", "anonymous"]
_ProcessKey = tuple[int, float | None]  # pid and start: a pid may be used again

_PRIVATE = (b"Private_Clean:", b"Private_Dirty:")
_PRIVATE_HUGE = b"Private_Hugetlb:"  # not in every kernel


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """What the workers of a server take, in bytes.

    largest: the most that any of the living workers was seen with; by `source`: `uss` is exact, `anonymous` an upper
    bound. together: of all workers; by `uss`, one that was not asked yet counts as the largest; by `anonymous`, only
    the largest counts, because the others may share all of theirs with it. unique: by pid, of each worker whose unique
    memory is known.
    """

    largest: int
    source: Source
    together: int
    unique: Mapping[int, int]


class WorkerMemories:
    """Reads the memory of a server's workers, again and again, and keeps the most that each was seen with.

    `root` is where `/proc` is; `cpu_clock` measures what a walk of page tables costs, in CPU seconds, so that a busy
    machine is not taken for a large worker.
    """

    def __init__(self, *, root: Path = ROOT, cpu_clock: Callable[[], float] = time.thread_time) -> None:
        self._root = root
        self._cpu_clock = cpu_clock
        self._unique: dict[_ProcessKey, int] = {}
        self._anonymous: dict[_ProcessKey, int] = {}
        self._asked_at: dict[_ProcessKey, float] = {}
        self._last_asked_at = float("-inf")
        self._too_slow_master: int | None = None

    def read(self, master_pid: int, processes: Mapping[int, WorkerProcess], now: float) -> WorkerMemory | None:
        """What the living workers of a master take; None where nothing is known. `now` is the monotonic time.

        Once in USS_SECONDS one of them is asked for its unique memory: first those that never were, the largest first,
        then the one that was asked the longest ago.
        """
        living = {(pid, process.start_time): process for pid, process in processes.items()}
        self._forget_all_but(living)
        for key, process in living.items():
            if process.anonymous_bytes is not None:
                self._anonymous[key] = max(self._anonymous.get(key, 0), process.anonymous_bytes)
        if living and master_pid != self._too_slow_master and now - self._last_asked_at >= USS_SECONDS:
            self._ask_next(master_pid, living, now)
        return self._sum_up(len(living))

    def _forget_all_but(self, living: Mapping[_ProcessKey, WorkerProcess]) -> None:
        self._unique = {key: seen for key, seen in self._unique.items() if key in living}
        self._anonymous = {key: seen for key, seen in self._anonymous.items() if key in living}
        self._asked_at = {key: at for key, at in self._asked_at.items() if key in living}

    def _ask_next(self, master_pid: int, living: Mapping[_ProcessKey, WorkerProcess], now: float) -> None:
        key = min(living, key=lambda key: (self._asked_at.get(key, float("-inf")), -self._anonymous.get(key, 0)))
        self._asked_at[key] = self._last_asked_at = now
        begin = self._cpu_clock()
        try:
            unique = read_unique_bytes(key[0], self._root)
        except (OSError, ValueError):  # not permitted, a kernel before 4.14, or the process has ended
            return
        if self._cpu_clock() - begin > LONGEST_WALK:
            self._too_slow_master = master_pid
            self._unique.clear()
            return
        self._unique[key] = max(self._unique.get(key, 0), unique)

    def _sum_up(self, workers: int) -> WorkerMemory | None:
        if self._unique:
            largest = max(self._unique.values())
            together = sum(self._unique.values()) + largest * (workers - len(self._unique))
            return WorkerMemory(largest, "uss", together, {pid: seen for (pid, _), seen in self._unique.items()})
        if self._anonymous:
            largest = max(self._anonymous.values())
            return WorkerMemory(largest, "anonymous", largest, {})
        return None


def read_unique_bytes(pid: int, root: Path = ROOT) -> int:
    """The unique memory of a process. Raises OSError where it may not be known, ValueError where the file has none."""
    lines = [line.split() for line in procfs.read_file(root, f"proc/{pid}/smaps_rollup").splitlines()]
    kilobytes = {words[0]: words[1] for words in lines if len(words) == 3 and words[2] == b"kB"}
    if not kilobytes.keys() >= set(_PRIVATE):
        raise ValueError(f"smaps_rollup of process {pid} has no private pages")
    return 1024 * sum(int(kilobytes.get(name, b"0")) for name in (*_PRIVATE, _PRIVATE_HUGE))
