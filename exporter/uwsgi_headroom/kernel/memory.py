"""Measures memory: what a process can still get, what one more worker would take, and kills for lack of it.

`read_available_memory` looks at the host and at each cgroup, `read_pressure` at how long processes wait for memory,
`WorkerMemories` at the workers of one server, and `read_oom_kills` at the kernel's counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import DIRECT, Asks, NotYetError
from uwsgi_headroom.kernel.cgroups import ROOT, find_cgroups
from uwsgi_headroom.kernel.processes import WorkerProcess
from uwsgi_headroom.record import MemoryPressure

UNLIMITED = 1 << 62
"""A version 1 limit of at least this means no limit: the kernel then writes the last page below 2 ** 63."""


class AvailableMemory(Struct, frozen=True):
    """Available bytes, never negative, whether the host or a cgroup limits them, and how long processes wait."""

    byte_count: int
    limited_by: Literal["host", "cgroup"]
    pressure: MemoryPressure | None = None


def read_available_memory(pid: int, *, root: Path = ROOT) -> AvailableMemory | None:
    """The memory that a process and the others in its cgroups can still get; None if one of the limits is unknown.

    For the host, this is the kernel's own estimate, MemAvailable of `/proc/meminfo`: free memory and memory that can be
    reclaimed without swapping (proc_meminfo(5)). For a cgroup, it is the limit minus the usage, both with the cgroups
    below. The inactive file cache does not count as usage: the kernel drops it before it kills a process. Swap does not
    count: a worker that is swapped out serves no requests. See the kernel's cgroup-v1/memory.rst and cgroup-v2.rst.
    """
    try:
        host = _read_field(root, "proc/meminfo", "MemAvailable:") * 1024
        cgroups = find_cgroups(pid, "memory", root)
        names, _ = _FILES[cgroups.version == 1]
        cgroup = min((_unused(folder, *names) for folder in cgroups.folders), default=math.inf)
    except (OSError, ValueError):
        return None
    pressure = read_pressure(pid, root=root)
    if host <= cgroup:
        return AvailableMemory(host, "host", pressure)
    return AvailableMemory(int(cgroup), "cgroup", pressure)


def read_pressure(pid: int, *, root: Path = ROOT) -> MemoryPressure | None:
    """For how much of the last minute processes waited for memory: those of the process's own cgroup, which waits for
    the limits above it too, or, without cgroups of version 2, all of the host. None if the kernel does not count that:
    before Linux 4.20, or with `psi=0`. Never raises. See the kernel's Documentation/accounting/psi.rst."""
    files: list[tuple[Literal["cgroup", "host"], Path | str, str]] = [("host", root, "proc/pressure/memory")]
    # No controller of version 1 has this name: the waits are counted in the tree of version 2, if there is one.
    with suppress(OSError, ValueError, LookupError):
        files[:0] = [("cgroup", find_cgroups(pid, "pressure", root).folders[-1], "memory.pressure")]
    for of, folder, name in files:
        with suppress(OSError, ValueError, LookupError):
            lines = [line.replace("=", " ").split() for line in procfs.read_text(folder, name).splitlines()]
            parts = {kind: float(average) / 100 for kind, _, _, _, average, *_ in lines}  # avg10, then avg60
            return MemoryPressure(parts["some"], parts["full"], of)
    return None


_FILES = {
    True: ((("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"), "memory.oom_control"),
    False: ((("memory.max", "memory.high"), "memory.current", "inactive_file"), "memory.events"),
}
"""The files of a cgroup with its limits (above `memory.high`, processes wait until the kernel has taken pages), its
usage, the field of the inactive file cache, and the file that counts OOM kills. By whether the version is 1."""


def _unused(folder: str, limit_files: Sequence[str], usage_file: str, cache_field: str) -> float:
    """The bytes that one cgroup has left; infinite if it has no limit."""
    limit = min(_read_limit(folder, name) for name in limit_files)
    if limit >= UNLIMITED:
        return math.inf
    used = int(procfs.read_text(folder, usage_file)) - _read_field(folder, "memory.stat", cache_field)
    # The two files are not read at the same instant, so cache may exceed usage; and usage may exceed a limit set later.
    return max(0, limit - max(0, used))


def _read_limit(folder: str, name: str) -> float:
    try:
        return float(procfs.read_text(folder, name).replace("max", "inf"))
    except FileNotFoundError:  # the root cgroup, or the memory controller is not enabled at this level
        return math.inf


def _read_field(folder: Path | str, name: str, field: str) -> int:
    """The number after a field's name, in a file of a field per line. Raises ValueError if it is missing."""
    for line in procfs.read_text(folder, name).splitlines():
        words = line.split()
        if words[:1] == [field]:
            return int(words[1])
    raise ValueError(f"{name} has no {field}")


USS_SECONDS = 60.0
"""Seconds between two reads of unique memory in a server: the workers take turns."""

LONGEST_WALK = 0.05
"""The most CPU seconds for one walk of page tables, enough for 5 GB in small pages. A longer walk costs a thousandth of
a CPU and delays every other server, so from then on only the anonymous memory is read.

Measured: 0.8 ms of CPU for a worker of 50 MB; 10 ms for 1 GB in small pages. With 64 workers of 50 MB, all memory facts
took 3 ms per minute, available memory included (Linux 6.18, 2 CPUs).
"""

Source = Literal["uss", "anonymous"]
_ProcessKey = tuple[int, float | None]  # PID and start time: a PID may be reused

_PRIVATE = (b"Private_Clean:", b"Private_Dirty:")
_MORE = (b"Private_Hugetlb:", b"SwapPss:")  # not in every kernel


class WorkerMemory(Struct, frozen=True):
    """The memory of a server's workers, in bytes.

    largest: the largest value of any living worker so far: exact if `source` is `uss`, an upper bound if `anonymous`.
    together: the sum over all workers. With `uss`, a worker not read yet counts as the largest; with `anonymous`, only
        the largest counts, because the others may share all their pages with it.
    unique: the unique memory of each worker for which it is known, by pid.
    """

    largest: int
    source: Source
    together: int
    unique: Mapping[int, int]


class _Life(Struct):
    """The most memory that a living worker was seen with, and when its unique memory was asked for last."""

    anonymous: int | None = None
    unique: int = 0
    asked_at: float = float("-inf")


class WorkerMemories:
    """Estimates the memory that one more worker of a server would take, from what each worker has for itself.

    There are two sources. `uss`, the unique set size, is the private pages of a process, from
    `/proc/<pid>/smaps_rollup`: the memory that ending the worker would free. It needs the privilege to trace the
    worker, and the kernel walks the worker's page tables. `anonymous` is all anonymous pages, which any user may read.
    It is an upper bound: it includes pages that a worker still shares with its master, copied on write. In both,
    swapped pages count: one more worker needs their like in memory.

    A worker grows for some time after its start, so the largest value of each living process counts.
    """

    def __init__(self, asks: Asks = DIRECT, *, root: Path = ROOT) -> None:
        self._asks, self._root = asks, root
        self._lives: dict[_ProcessKey, _Life] = {}
        self._last_asked_at = float("-inf")
        self._too_slow_master: int | None = None

    def read(self, master_pid: int, processes: Mapping[int, WorkerProcess], now: float) -> WorkerMemory | None:
        """The memory of a master's living workers; None if unknown. `now` is the monotonic time in seconds.

        Every USS_SECONDS it reads the unique memory of one worker: first of those never read, the largest first, then
        of the one read the longest ago.
        """
        known, self._lives = self._lives, {}
        for pid, process in processes.items():
            key = pid, process.start_time
            life = self._lives[key] = known.get(key) or _Life()
            if process.anonymous_bytes is not None:
                life.anonymous = max(life.anonymous or 0, process.anonymous_bytes)
        if self._lives and master_pid != self._too_slow_master and now - self._last_asked_at >= USS_SECONDS:
            self._ask_next(master_pid, now)
        return self._sum_up()

    def _ask_next(self, master_pid: int, now: float) -> None:
        (pid, _), life = min(self._lives.items(), key=lambda item: (item[1].asked_at, -(item[1].anonymous or 0)))
        try:
            unique, cost = self._asks.ask(walk, pid, self._root)
        except NotYetError:
            return
        except (OSError, ValueError):  # not permitted, a kernel before 4.14, or the process has ended
            unique, cost = 0, 0.0
        life.asked_at = self._last_asked_at = now
        life.unique = max(life.unique, unique)
        if cost > LONGEST_WALK:
            self._too_slow_master = master_pid
            for each in self._lives.values():
                each.unique = 0

    def _sum_up(self) -> WorkerMemory | None:
        if unique := {pid: life.unique for (pid, _), life in self._lives.items() if life.unique}:
            largest = max(unique.values())
            together = sum(unique.values()) + largest * (len(self._lives) - len(unique))
            return WorkerMemory(largest, "uss", together, unique)
        anonymous = [life.anonymous for life in self._lives.values() if life.anonymous is not None]
        if anonymous:
            return WorkerMemory(max(anonymous), "anonymous", max(anonymous), {})
        return None


def walk(pid: int, root: Path) -> tuple[int, float]:
    """The unique memory of a process, in bytes, and the CPU seconds that it took to read it; a question for `aside`.
    Raises OSError if it is unreadable, ValueError if it is missing."""
    began = time.thread_time()
    lines = [line.split() for line in procfs.read_file(root, f"proc/{pid}/smaps_rollup").splitlines()]
    kilobytes = {words[0]: words[1] for words in lines if len(words) == 3 and words[2] == b"kB"}
    if not kilobytes.keys() >= set(_PRIVATE):
        raise ValueError(f"smaps_rollup of process {pid} has no private pages")
    unique = 1024 * sum(int(kilobytes.get(name, b"0")) for name in (*_PRIVATE, *_MORE))
    return unique, time.thread_time() - began


class OomKills(Struct, frozen=True):
    """OOM kills since the creation of the cgroup and the boot of the host; None if not counted."""

    cgroup: int | None
    host: int | None


def read_oom_kills(pid: int, *, root: Path = ROOT) -> OomKills:
    """How often the kernel has killed a process for lack of memory. Never raises.

    For the process's cgroup and those below it, the kernel counts in `memory.events` (version 2) or
    `memory.oom_control` (version 1), since Linux 4.13; for the host in `/proc/vmstat`, which includes kills in cgroups.
    Only the kernel's log names the killed process.
    """
    host = cgroup = None
    with suppress(OSError, ValueError, IndexError):
        host = _read_field(root, "proc/vmstat", "oom_kill")
    with suppress(OSError, ValueError, IndexError):
        cgroups = find_cgroups(pid, "memory", root)
        cgroup = _read_field(cgroups.folders[-1], _FILES[cgroups.version == 1][1], "oom_kill")
    return OomKills(cgroup, host)
