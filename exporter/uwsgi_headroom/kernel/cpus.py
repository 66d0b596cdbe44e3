"""Determines how many CPUs a server can use, how much of them is idle, and for how long a quota stopped it.

`read_usable_cpus` takes the minimum of the host's CPUs, the affinity and the tightest quota of all levels of cgroups
(see `cgroups`). `MachineCpu` reads the CPU time of the machine, once a second for all servers, and `ServerCpu` adds it
up for one of them. If a quota is unknown, so are the usable CPUs and the idle time.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.cgroups import ROOT, Cgroups, find_cgroups
from uwsgi_headroom.record import Quota


@dataclass(frozen=True, slots=True)
class GroupQuota:
    """A cgroup with a quota, in CPUs. `usage_file` counts the CPU time of all its processes; None if the kernel has no
    such file for the cgroup. `stat_file` counts the periods of the quota, and how often and for how long its processes
    were stopped in them. `name` is the cgroup's path as the kernel names it."""

    cpus: float
    usage_file: str | None
    stat_file: str = field(default="", compare=False)
    name: str = field(default="", compare=False)


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
    master, so pass the union of the workers' CPUs.
    """
    try:
        allowed = len(os.sched_getaffinity(pid) if affinity is None else affinity)
        online = procfs.read_text(root, "sys/devices/system/cpu/online")  # such as `0-3,8`
        spans = (span.split("-") for span in online.strip().split(","))
        host = sum(int(span[-1]) - int(span[0]) + 1 for span in spans)
        groups = _find_quotas(pid, root)
    except (OSError, ValueError):
        return None
    quota = min((group.cpus for group in groups), default=math.inf)
    count = min(host, allowed, quota)
    limited_by: Literal["affinity", "quota", "host"] = (
        "host" if count == host else "affinity" if count == allowed else "quota"
    )
    return UsableCpus(count, limited_by, host, allowed, quota if groups else None, groups)


def _find_quotas(pid: int, root: Path) -> tuple[GroupQuota, ...]:
    """Every cgroup of the process that has a quota. Raises `OSError` if they cannot be read."""
    cgroups = find_cgroups(pid, "cpu", root)
    usage_files = _find_usage_files(pid, cgroups, root)
    quotas = [
        GroupQuota(_read_quota(folder, cgroups.version), usage, os.path.join(folder, "cpu.stat"), name)
        for folder, usage, name in zip(cgroups.folders, usage_files, cgroups.names, strict=True)
    ]
    return tuple(quota for quota in quotas if quota.cpus != math.inf)


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
    if (counted.version, counted.names) != (cgroups.version, cgroups.names):
        return unknown
    return [os.path.join(folder, "cpuacct.usage") for folder in counted.folders]


def _read_quota(folder: str, version: int) -> float:
    """The quota in CPUs: in version 2 "<quota or max> <period>" (cgroup-v2.rst), in 1 a file for each, -1 for none."""
    files = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if version == 1 else ("cpu.max",)
    try:
        quota, period = " ".join(procfs.read_text(folder, file) for file in files).split()
    except FileNotFoundError:  # the root cgroup, a level without the controller, or a kernel without CFS_BANDWIDTH
        return math.inf
    return math.inf if quota == "max" or int(quota) < 0 else int(quota) / int(period)


READ_SECONDS = 1.0
"""The longest age of a reading. The kernel counts in hundredths of a second, and the file of hundreds of CPUs takes
long."""

FORGET_SECONDS = 60.0
"""Seconds without a request after which a cgroup is no longer read."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class MachineTimes:
    """CPU seconds since boot at the monotonic time `at`: by online CPU, and by usage file of a cgroup (None if the
    file cannot be read). The idle time of a CPU may decrease slightly, and restarts after the CPU was offline."""

    at: float
    idle: Mapping[int, float]
    used: Mapping[int, float]
    groups: dict[str, float | None] = field(default_factory=dict)


class MachineCpu:
    """Keeps the latest reading of the machine, which all servers of an exporter share."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, root: Path = ROOT) -> None:
        self._clock = clock
        self._path = os.path.join(root, "proc/stat")
        self._read_at = float("-inf")
        self._latest: MachineTimes | None = None
        self._asked: dict[str, float] = {}  # by usage file, the time of the last request

    def read(self, usage_files: Iterable[str] = ()) -> MachineTimes | None:
        """The latest reading, at most a second old, including these cgroups; None if the kernel does not report it."""
        now = self._clock()
        for path in usage_files:
            self._asked[path] = now
        if now - self._read_at >= READ_SECONDS:
            self._read_at = now
            self._asked = {path: at for path, at in self._asked.items() if now - at < FORGET_SECONDS}
            try:
                self._latest = MachineTimes(now, *parse_stat(procfs.read_file(self._path)))
            except (OSError, ValueError):
                self._latest = None
        if self._latest is not None:
            for path in self._asked.keys() - self._latest.groups.keys():
                self._latest.groups[path] = read_usage(path)
        return self._latest


def parse_stat(text: bytes) -> tuple[dict[int, float], dict[int, float]]:
    """Seconds idle and used, by online CPU, from the text of `/proc/stat`. Raises ValueError if it is not as in
    proc_stat(5).

    Time waiting for a disk (iowait) counts as idle, since another process could run. Time taken by the hypervisor
    (steal) counts as used, since no process here can have it. User time includes guest time. Time of niced processes
    counts as used, although they would yield.
    """
    idle, used = {}, {}
    for line in text.split(b"\n"):
        if not line.startswith(b"cpu"):
            break  # the CPUs come first, then a long line of interrupts
        name, *ticks = line.split(None, 9)[:9]
        if name == b"cpu":
            continue  # the sum, which includes offline CPUs
        if len(ticks) < 5:
            raise ValueError(f"/proc/stat has {len(ticks)} times of a CPU")
        at_rest = int(ticks[3]) + int(ticks[4])  # idle and iowait
        cpu = int(name[3:])
        idle[cpu] = at_rest / _TICKS
        used[cpu] = (sum(map(int, ticks)) - at_rest) / _TICKS
    return idle, used


def read_usage(path: str) -> float | None:
    """CPU seconds used by the processes of a cgroup, from its `cpu.stat` (version 2) or `cpuacct.usage` (version 1);
    None if the file cannot be read."""
    try:
        text = procfs.read_file(path)
        if path.endswith("cpuacct.usage"):
            return int(text) / 1e9
        (usage,) = [line.split()[1] for line in text.splitlines() if line.startswith(b"usage_usec ")]
        return int(usage) / 1e6
    except (OSError, ValueError):
        return None


QUOTA_PERIOD = 0.1
"""Seconds, the kernel's default. A step may contain one period too many, so a group may seem to exceed its quota by
one period; that excess counts against the next step."""

LEAST_ACCOUNTED = 0.5
"""The smallest fraction of a step that a CPU must report as idle or used. Emulated kernels write zeros, although the
CPUs are not saturated."""


class CpuTimes(Struct, frozen=True):
    """Totals since the first reading: the measured seconds, and the CPU seconds idle and used at the tightest level."""

    measured_seconds: float = 0.0
    idle_seconds: float = 0.0
    used_seconds: float = 0.0


class ServerCpu:
    """Adds up how much CPU is idle for one server, and how much of the CPU available to it is used.

    A server can use CPU while its CPUs are idle and each of its cgroups has quota left; the tightest level counts. For
    each step between two readings of the machine,

        idle = min(idle time of the server's CPUs, quota x step - the group's use, for each group with a quota)

    and the rest of that level's capacity is used: by the server, or by other processes on its CPUs or of its cgroup. So
    idle + used = capacity x time. Neither total ever decreases. An unknown step adds nothing.
    """

    def __init__(self, machine: MachineCpu) -> None:
        self._machine = machine
        self._then: MachineTimes | None = None
        self._totals = CpuTimes()
        self._latest: CpuTimes | None = None  # None if the last step was unknown
        self._exceeded: dict[str, float] = {}

    def read(self, allowed: Collection[int], groups: Sequence[GroupQuota]) -> CpuTimes | None:
        """The totals as of the machine's latest reading, the same object until the next reading; None if unknown.
        `allowed`: the CPUs that the server may run on; `groups`: its cgroups that have a quota."""
        files = [group.usage_file for group in groups if group.usage_file]
        then, now = self._then, self._machine.read(files) if len(files) == len(groups) else None
        self._then = now
        if now is None:
            self._latest = None
        elif then is None:
            self._latest = self._totals = replace(self._totals)
        elif now is not then:
            self._latest = self._add(then, now, allowed, groups)
        return self._latest

    def _add(
        self, then: MachineTimes, now: MachineTimes, allowed: Collection[int], groups: Sequence[GroupQuota]
    ) -> CpuTimes | None:
        levels = [_step_of_cpus(then, now, allowed), *(self._step_of_group(then, now, group) for group in groups)]
        known = [level for level in levels if level is not None]
        if len(known) < len(levels):
            return None
        idle, used = min(known, key=lambda level: level[0])
        self._totals = CpuTimes(
            self._totals.measured_seconds + now.at - then.at,
            self._totals.idle_seconds + idle,
            self._totals.used_seconds + used,
        )
        return self._totals

    def _step_of_group(self, then: MachineTimes, now: MachineTimes, group: GroupQuota) -> tuple[float, float] | None:
        path = group.usage_file or ""
        before, after = then.groups.get(path), now.groups.get(path)
        if before is None or after is None:
            return None
        capacity = group.cpus * (now.at - then.at)
        left = capacity - max(0.0, after - before) - self._exceeded.get(path, 0.0)
        self._exceeded[path] = min(max(0.0, -left), QUOTA_PERIOD * group.cpus)
        idle = max(0.0, left)
        return idle, capacity - idle


def _step_of_cpus(then: MachineTimes, now: MachineTimes, allowed: Collection[int]) -> tuple[float, float] | None:
    """Seconds idle and used, over the CPUs that were online at both ends of the step; None if not plausible."""
    cpus = [cpu for cpu in allowed if cpu in now.idle and cpu in then.idle]
    idle = sum([max(0.0, now.idle[cpu] - then.idle[cpu]) for cpu in cpus])
    used = sum([max(0.0, now.used[cpu] - then.used[cpu]) for cpu in cpus])
    believable = idle + used >= LEAST_ACCOUNTED * len(cpus) * (now.at - then.at)
    return (idle, used) if cpus and believable else None


class Throttling(Struct, frozen=True):
    """Totals since the first reading, of the level that throttled most in each step: the periods in which a process of
    the cgroup could run, those in which they were stopped, and the seconds for which they were, summed over the CPUs.
    quota: that of the level which throttled last; before any did, the tightest."""

    quota: Quota
    periods: int = 0
    throttled_periods: int = 0
    throttled_seconds: float = 0.0


class Counts(NamedTuple):
    """The kernel's counts of one cgroup since its creation."""

    throttled: int
    periods: int
    seconds: float

    def minus(self, then: Counts) -> Counts:
        """The growth; none if the cgroup was made anew."""
        if self.periods < then.periods or self.throttled < then.throttled:
            return Counts(0, 0, 0.0)
        seconds = max(0.0, self.seconds - then.seconds)
        return Counts(self.throttled - then.throttled, self.periods - then.periods, seconds)


class ThrottleCounts:
    """Reads the quotas of one server again and again.

    A quota is a number of CPU seconds for each period of 0.1 s, by default. When the processes of the cgroup have used
    it, all of them are stopped until the period ends, also while CPUs are idle, and also if the mean use is far below
    the quota. The kernel counts that in `cpu.stat` of the cgroup: see "CFS Bandwidth Control" in
    Documentation/scheduler/sched-bwc.rst. Every level of the cgroup tree may have a quota of its own.
    """

    def __init__(self) -> None:
        self._then: dict[str, Counts] = {}
        self._total: Throttling | None = None

    def read(self, cpus: UsableCpus) -> Throttling | None:
        """The totals as of now; None without a quota, or if its counts cannot be read. Never raises. cpus: those that
        the server can use, with its cgroups that have a quota."""
        allowed = min(cpus.host, cpus.affinity)
        quotas = {group.stat_file: Quota(group.name, group.cpus, allowed) for group in cpus.groups}
        now = {path: counts for path in quotas if (counts := read_counts(path))}
        then, self._then = self._then, now
        if not now:
            self._total = None
            return None
        tightest = min([quotas[path] for path in now], key=lambda quota: quota.cpus)
        total = self._total or Throttling(tightest)
        grown = [(counts.minus(then[path]), quotas[path]) for path, counts in now.items() if path in then]
        if grown:
            most, quota = max(grown, key=lambda each: each[0][:2])
            same = (quotas[path] for path in now if quotas[path].cgroup == total.quota.cgroup)
            total = Throttling(
                quota if most.throttled else next(same, tightest),
                total.periods + most.periods,
                total.throttled_periods + most.throttled,
                total.throttled_seconds + most.seconds,
            )
        self._total = total
        return total


def read_counts(path: str) -> Counts | None:
    """The counts in a `cpu.stat` file: `throttled_usec` in version 2, `throttled_time` (nanoseconds) in version 1; None
    if it cannot be read or has none."""
    try:
        pairs = [line.split() for line in procfs.read_file(path).splitlines()]
        counts = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
        seconds = counts[b"throttled_usec"] / 1e6 if b"throttled_usec" in counts else counts[b"throttled_time"] / 1e9
        return Counts(counts[b"nr_throttled"], counts[b"nr_periods"], seconds)
    except (OSError, ValueError, KeyError):
        return None
