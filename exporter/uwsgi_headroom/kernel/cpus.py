"""Determines how many CPUs a process can use: the minimum of the host's CPUs, its affinity and its cgroup quota.

The tightest quota of all levels of cgroups (see `cgroups`) applies. Version 2 has "<quota or max> <period>" in
`cpu.max`; version 1 has `cpu.cfs_quota_us` (-1 for no quota) and `cpu.cfs_period_us`; see the kernel's cgroup-v2.rst.
If a quota is unknown, so is the number of usable CPUs.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.cgroups import Cgroups, find_cgroups

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class GroupQuota:
    """A cgroup with a quota, in CPUs. `usage_file` counts the CPU time of all its processes; None if the kernel has no
    such file for the cgroup."""

    cpus: float
    usage_file: str | None


@dataclass(frozen=True, slots=True)
class UsableCpus:
    """`count` in CPUs (a quota may be a fraction), and the limit that determines it.

    `host` is the number of CPUs online, `affinity` the number that the process may run on, `quota` the tightest quota
    or None. `groups` are all cgroups of the process that have a quota.
    """

    count: float
    limited_by: Literal["affinity", "quota", "host"]
    host: int
    affinity: int
    quota: float | None
    groups: tuple[GroupQuota, ...] = field(default=(), compare=False)


def read_affinity(pid: int) -> tuple[int, ...] | None:
    """The CPUs that a process may run on, ascending; None if the process has ended."""
    try:
        return tuple(sorted(os.sched_getaffinity(pid)))
    except OSError:
        return None


def read_usable_cpus(pid: int, *, affinity: Collection[int] | None = None, root: Path = ROOT) -> UsableCpus | None:
    """The CPUs a process can use; None if the process has ended or one of the limits is unknown.

    `affinity`: the CPUs to count instead of the process's own. uWSGI's `cpu-affinity` pins the workers but not the
    master, so pass the union of the workers' CPUs. `root` is the parent directory of `/proc` and `/sys`.
    """
    try:
        allowed = len(os.sched_getaffinity(pid) if affinity is None else affinity)
        host = _count_cpus(procfs.read_text(root, "sys/devices/system/cpu/online"))
        groups = _find_quotas(pid, root)
    except (OSError, ValueError):
        return None
    quota = min((group.cpus for group in groups), default=math.inf)
    count = min(host, allowed, quota)
    limited_by: Literal["affinity", "quota", "host"] = (
        "host" if count == host else "affinity" if count == allowed else "quota"
    )
    return UsableCpus(count, limited_by, host, allowed, quota if groups else None, groups)


def _count_cpus(cpus: str) -> int:
    """The number of CPUs in a list such as `0-3,8`."""
    spans = (span.split("-") for span in cpus.strip().split(","))
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)


def _find_quotas(pid: int, root: Path) -> tuple[GroupQuota, ...]:
    """Every cgroup of the process that has a quota. Raises `OSError` if they cannot be read."""
    cgroups = find_cgroups(pid, "cpu", root)
    read_quota = _cfs_quota if cgroups.version == 1 else _cpu_max
    usage_files = _find_usage_files(pid, cgroups, root)
    quotas = [(read_quota(folder), usage) for folder, usage in zip(cgroups.folders, usage_files, strict=True)]
    return tuple(GroupQuota(quota, usage) for quota, usage in quotas if quota != math.inf)


def _find_usage_files(pid: int, cgroups: Cgroups, root: Path) -> list[str | None]:
    """The file that counts the CPU time of each cgroup in `cgroups.folders`; None if there is no such file.

    In version 1 another controller (cpuacct) counts CPU time. It may have a separate hierarchy, in which only a cgroup
    with the same path holds the same processes.
    """
    if cgroups.version == 2:
        return [os.path.join(folder, "cpu.stat") for folder in cgroups.folders]
    unknown: list[str | None] = [None] * len(cgroups.folders)
    try:
        counted = find_cgroups(pid, "cpuacct", root) if cgroups.version else cgroups
    except OSError:
        return unknown
    if (counted.version, counted.path) != (cgroups.version, cgroups.path) or len(counted.folders) != len(unknown):
        return unknown
    return [os.path.join(folder, "cpuacct.usage") for folder in counted.folders]


def _cpu_max(folder: str) -> float:
    try:
        quota, period = procfs.read_text(folder, "cpu.max").split()
    except FileNotFoundError:  # the root cgroup, or the cpu controller is not enabled at this level
        return math.inf
    return math.inf if quota == "max" else int(quota) / int(period)


def _cfs_quota(folder: str) -> float:
    try:
        quota = int(procfs.read_text(folder, "cpu.cfs_quota_us"))
        period = int(procfs.read_text(folder, "cpu.cfs_period_us"))
    except FileNotFoundError:  # a kernel without CFS_BANDWIDTH
        return math.inf
    return math.inf if quota < 0 else quota / period
