"""How many CPUs a process can really use: the least of the host's, its affinity and its cgroup quota.

A quota is enforced at every level of the cgroup tree, so the tightest ancestor wins. The rules of the two
cgroup versions live here and nothing else: version 2 writes "<quota or max> <period>" into `cpu.max`,
version 1 has `cpu.cfs_quota_us` (-1 is none) and `cpu.cfs_period_us`; see cgroups(7) and the kernel's
cgroup-v2.rst. On a hybrid host the cpu controller belongs to one of them, and `/proc/<pid>/cgroup` says to
which.

From inside a container nothing above its own cgroup can be seen: a quota of the pod around it is missed.
And the cgroup of another container may lie outside of what is mounted here: then the quota is not known,
and neither is the figure.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from uwsgi_headroom.kernel import procfs

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class GroupQuota:
    """A cgroup that has a quota, in CPUs. `usage_file` counts the CPU time of all its processes; None where the kernel
    keeps no such file for it."""

    cpus: float
    usage_file: str | None


@dataclass(frozen=True, slots=True)
class UsableCpus:
    """`count` in CPUs (a quota may be a fraction), and which of the three is the least.

    `host` are the CPUs online, `affinity` those the process may run on, `quota` is None where there is none. `groups`
    are all cgroups with a quota that the process is in.
    """

    count: float
    limited_by: Literal["affinity", "quota", "host"]
    host: int
    affinity: int
    quota: float | None
    groups: tuple[GroupQuota, ...] = field(default=(), compare=False)


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
        host = _count_cpus(_read(root, "sys/devices/system/cpu/online"))
        groups = _find_quotas(pid, root)
    except (OSError, ValueError):
        return None
    quota = min((group.cpus for group in groups), default=math.inf)
    count = min(host, allowed, quota)
    limited_by: Literal["affinity", "quota", "host"] = (
        "host" if count == host else "affinity" if count == allowed else "quota"
    )
    return UsableCpus(count, limited_by, host, allowed, quota if groups else None, groups)


def _read(folder: Path | str, name: str) -> str:
    return procfs.read_file(folder, name).decode()


def _count_cpus(cpus: str) -> int:
    """How many CPUs are in a list such as `0-3,8`."""
    spans = (span.split("-") for span in cpus.strip().split(","))
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)


def _find_quotas(pid: int, root: Path) -> tuple[GroupQuota, ...]:
    """Every cgroup of the process that has a quota. Raises `OSError` where that cannot be known."""
    cgroups = _read(root, f"proc/{pid}/cgroup")
    version, path = _cgroup(cgroups, "cpu")
    if version == 0:
        return ()
    mountinfo = _read(root, "proc/self/mountinfo")
    levels = _find_levels(mountinfo, version, path, "cpu", root)
    if not levels:
        raise FileNotFoundError(f"the cgroup of process {pid} is not mounted here")
    usage_files: list[str | None] = [None] * len(levels)
    if version == 2:
        quotas, usage_files = [*map(_cpu_max, levels)], [os.path.join(level, "cpu.stat") for level in levels]
    else:
        quotas, counted = [*map(_cfs_quota, levels)], _find_usage_files(mountinfo, cgroups, path, root)
        usage_files = [*counted] if len(counted) == len(levels) else usage_files
    return tuple(GroupQuota(*pair) for pair in zip(quotas, usage_files, strict=True) if pair[0] != math.inf)


def _find_usage_files(mountinfo: str, cgroups: str, path: str, root: Path) -> list[str]:
    """Of version 1, where CPU time is counted by another controller: it may have a hierarchy of its own, whose cgroups
    hold the same processes only as far as they have the same path."""
    if _cgroup(cgroups, "cpuacct") != (1, path):
        return []
    levels = _find_levels(mountinfo, 1, path, "cpuacct", root)
    return [os.path.join(level, "cpuacct.usage") for level in levels]


def _find_levels(mountinfo: str, version: Literal[1, 2], path: str, controller: str, root: Path) -> list[str]:
    """The folders of a cgroup and of those above it, from the top; none where it is not mounted here."""
    for mount_root, mount_point in _mounts(mountinfo, version, controller):
        if (below := _below(path, mount_root)) is None:
            continue
        top = os.path.join(root, mount_point.lstrip("/"))
        levels = list(accumulate(filter(None, below.split("/")), os.path.join, initial=top))
        if os.path.exists(os.path.join(levels[-1], "cgroup.procs")):  # else something is mounted over it
            return levels
    return []


def _cgroup(lines: str, controller: str) -> tuple[Literal[0, 1, 2], str]:
    """The cgroup version that a controller belongs to, 0 if to none, and the path of the process in it."""
    unified: str | None = None
    for line in lines.splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return 1, path
        if not controllers:
            unified = path
    return (0, "") if unified is None else (2, unified)


def _mounts(mountinfo: str, version: Literal[1, 2], controller: str) -> list[tuple[str, str]]:
    """Where the hierarchy is mounted: for each mount, the cgroup at its top and its place (proc(5))."""
    mounts = []
    for line in mountinfo.splitlines():
        mount, _, filesystem = line.partition(" - ")
        kind, _, options = filesystem.split(" ", 2)
        if kind == "cgroup2" if version == 2 else kind == "cgroup" and controller in options.split(","):
            _, _, _, mount_root, mount_point, *_ = mount.split(" ")
            mounts.append((_unescaped(mount_root), _unescaped(mount_point)))
    return mounts


def _unescaped(path: str) -> str:
    r"""mountinfo writes a space as \040, and so on."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _below(path: str, mount_root: str) -> str | None:
    """A cgroup's path from the top of a mount; None if it is not under it.

    Both are as seen from this process's cgroup namespace: with one of its own, a container's cgroup is `/`,
    its neighbour `/../neighbour`, and a mount made outside has a top such as `/..`.
    """
    if path != mount_root and not path.startswith(mount_root.rstrip("/") + "/"):
        return None
    below = path[len(mount_root) :].lstrip("/")
    return None if below.split("/")[0] == ".." else below


def _cpu_max(folder: str) -> float:
    try:
        quota, period = _read(folder, "cpu.max").split()
    except FileNotFoundError:  # the root of all, or the cpu controller is not enabled at this level
        return math.inf
    return math.inf if quota == "max" else int(quota) / int(period)


def _cfs_quota(folder: str) -> float:
    try:
        quota = int(_read(folder, "cpu.cfs_quota_us"))
        period = int(_read(folder, "cpu.cfs_period_us"))
    except FileNotFoundError:  # a kernel without CFS_BANDWIDTH
        return math.inf
    return math.inf if quota < 0 else quota / period
