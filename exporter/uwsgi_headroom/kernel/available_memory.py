"""Determines how much memory a process can still get: the minimum of the host's and of each of its cgroups.

For the host, this is the kernel's own estimate, MemAvailable of `/proc/meminfo`: free memory and memory that can be
reclaimed without swapping (proc_meminfo(5)). For a cgroup, it is the limit minus the usage. The inactive file cache
does not count as usage: the kernel drops it before it kills a process. Version 1 has `memory.limit_in_bytes`,
`memory.usage_in_bytes`, and `total_inactive_file` in `memory.stat`; version 2 has `memory.max`, `memory.current` and
`inactive_file`. All of them include the cgroups below. See the kernel's cgroup-v1/memory.rst and cgroup-v2.rst. Swap
does not count: a worker that is swapped out serves no requests.
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
"""A version 1 limit of at least this means no limit: the kernel then writes the last page below 2 ** 63."""


@dataclass(frozen=True, slots=True)
class AvailableMemory:
    """Available bytes, never negative, and whether the host or a cgroup limits them."""

    byte_count: int
    limited_by: Literal["host", "cgroup"]


def read_available_memory(pid: int, *, root: Path = ROOT) -> AvailableMemory | None:
    """The memory that a process and the others in its cgroups can still get; None if one of the limits is unknown.

    `root` is the parent directory of `/proc` and `/sys`.
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
    """The bytes that one cgroup has left; infinite if it has no limit."""
    try:
        limit = procfs.read_text(folder, limit_file).strip()
    except FileNotFoundError:  # the root cgroup, or the memory controller is not enabled at this level
        return math.inf
    if limit == "max" or int(limit) >= UNLIMITED:
        return math.inf
    used = int(procfs.read_text(folder, usage_file)) - _read_field(folder, "memory.stat", cache_field)
    # The two files are not read at the same instant, so cache may exceed usage; and usage may exceed a limit set later.
    return max(0, int(limit) - max(0, used))


def _read_field(folder: Path | str, name: str, field: str) -> int:
    """The number after a field's name, in a file with one field per line. Raises ValueError if the field is missing."""
    for line in procfs.read_text(folder, name).splitlines():
        words = line.split()
        if words[:1] == [field]:
            return int(words[1])
    raise ValueError(f"{name} has no {field}")
