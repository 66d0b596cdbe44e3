"""How many CPUs a process can really use: the least of the host's, its affinity and its cgroup quota.

The tightest quota of all levels of cgroups (see `cgroups`) wins. The rules of the two versions for quotas live here:
version 2 writes "<quota or max> <period>" into `cpu.max`, version 1 has `cpu.cfs_quota_us` (-1 is none) and
`cpu.cfs_period_us`; see the kernel's cgroup-v2.rst. Where a quota is not known, neither is the figure.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.cgroups import find_cgroups

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class UsableCpus:
    """`count` in CPUs (a quota may be a fraction), and which of the three is the least.

    `host` are the CPUs online, `affinity` those the process may run on, `quota` is None where there is none.
    """

    count: float
    limited_by: Literal["affinity", "quota", "host"]
    host: int
    affinity: int
    quota: float | None


def read_affinity(pid: int) -> tuple[int, ...] | None:
    """The CPUs that a process may run on, ascending; None if it is gone."""
    try:
        return tuple(sorted(os.sched_getaffinity(pid)))
    except OSError:
        return None


def read_usable_cpus(pid: int, *, affinity: Collection[int] | None = None, root: Path = ROOT) -> UsableCpus | None:
    """The CPUs a process can use; None if it is gone, or if one of the limits cannot be known.

    `affinity`: the CPUs to count instead of those of the process itself. uWSGI's `cpu-affinity` pins the
    workers and not the master, so pass what its workers may run on together. `root` is where `/proc` and
    `/sys` are.
    """
    try:
        allowed = len(os.sched_getaffinity(pid) if affinity is None else affinity)
        host = _count_cpus(procfs.read_text(root, "sys/devices/system/cpu/online"))
        quota = _quota(pid, root)
    except (OSError, ValueError):
        return None
    count = min(host, allowed, quota)
    limited_by: Literal["affinity", "quota", "host"] = (
        "host" if count == host else "affinity" if count == allowed else "quota"
    )
    return UsableCpus(count, limited_by, host, allowed, None if quota == math.inf else quota)


def _count_cpus(cpus: str) -> int:
    """How many CPUs are in a list such as `0-3,8`."""
    spans = (span.split("-") for span in cpus.strip().split(","))
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)


def _quota(pid: int, root: Path) -> float:
    """The tightest quota in CPUs, infinite if there is none. Raises `OSError` where it cannot be known."""
    cgroups = find_cgroups(pid, "cpu", root)
    read_quota = _cfs_quota if cgroups.version == 1 else _cpu_max
    return min(map(read_quota, cgroups.folders), default=math.inf)


def _cpu_max(folder: str) -> float:
    try:
        quota, period = procfs.read_text(folder, "cpu.max").split()
    except FileNotFoundError:  # the root of all, or the cpu controller is not enabled at this level
        return math.inf
    return math.inf if quota == "max" else int(quota) / int(period)


def _cfs_quota(folder: str) -> float:
    try:
        quota = int(procfs.read_text(folder, "cpu.cfs_quota_us"))
        period = int(procfs.read_text(folder, "cpu.cfs_period_us"))
    except FileNotFoundError:  # a kernel without CFS_BANDWIDTH
        return math.inf
    return math.inf if quota < 0 else quota / period
