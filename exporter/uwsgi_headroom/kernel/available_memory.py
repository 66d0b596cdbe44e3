"""How much memory a process can still get: the least of what the host and each of its cgroups have left.

The host's is the kernel's own estimate, MemAvailable of `/proc/meminfo`: free memory and what it can reclaim without
swapping (proc_meminfo(5)). A cgroup has its limit less what is charged to it, without the inactive file cache, which
the kernel drops before it ends a process. Version 1: `memory.limit_in_bytes`, `memory.usage_in_bytes`, and
`total_inactive_file` of `memory.stat`, with everything below included, as usage is. Version 2: `memory.max`,
`memory.current`, `inactive_file`, all of which include what is below. See the kernel's cgroup-v1/memory.rst and
cgroup-v2.rst. Swap is left out: a worker that is swapped out serves nobody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.cgroups import find_cgroups

ROOT = Path("/")

UNLIMITED = 1 << 62
"""From this on a limit of version 1 is none: the kernel writes the last page below 2 ** 63 then."""


@dataclass(frozen=True, slots=True)
class AvailableMemory:
    """Bytes that are available, never negative, and what has the least of them: the host or a cgroup."""

    byte_count: int
    limited_by: Literal["host", "cgroup"]


def read_available_memory(pid: int, *, root: Path = ROOT) -> AvailableMemory | None:
    """The memory that the processes in the cgroups of this one can still get; None if one of the limits is unknown.

    `root` is where `/proc` and `/sys` are.
    """
    try:
        host = _read_field(root, "proc/meminfo", "MemAvailable:") * 1024
        cgroups = find_cgroups(pid, "memory", root)
        read_level = _unused_of_version_1 if cgroups.version == 1 else _unused_of_version_2
        cgroup = min(map(read_level, cgroups.folders), default=math.inf)
    except (OSError, ValueError):
        return None
    return AvailableMemory(host, "host") if host <= cgroup else AvailableMemory(int(cgroup), "cgroup")


def _unused_of_version_1(folder: str) -> float:
    return _unused(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _unused_of_version_2(folder: str) -> float:
    return _unused(folder, "memory.max", "memory.current", "inactive_file")


def _unused(folder: str, limit_file: str, usage_file: str, cache_field: str) -> float:
    """The bytes that one cgroup has left, infinite where it has no limit."""
    try:
        limit = procfs.read_text(folder, limit_file).strip()
    except FileNotFoundError:  # the root of all, or the memory controller is not enabled at this level
        return math.inf
    if limit == "max" or int(limit) >= UNLIMITED:
        return math.inf
    used = int(procfs.read_text(folder, usage_file)) - _read_field(folder, "memory.stat", cache_field)
    # The two are not of the same instant, so their difference may be below 0; and usage may be above a limit set later.
    return max(0, int(limit) - max(0, used))


def _read_field(folder: Path | str, name: str, field: str) -> int:
    """The number behind a field's name in a file with one on each line. Raises ValueError if it is not there."""
    for line in procfs.read_text(folder, name).splitlines():
        words = line.split()
        if words[:1] == [field]:
            return int(words[1])
    raise ValueError(f"{name} has no {field}")
