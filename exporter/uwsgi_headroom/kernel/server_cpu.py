"""Adds up how much CPU is idle for one server, and how much of the CPU available to it is used.

A server can use CPU while its CPUs are idle and each of its cgroups has quota left; the tightest of these levels
counts. For each step between two readings of the machine,

    idle = min(idle time of the server's CPUs, quota x step - the group's use, for each group with a quota)

and the rest of that level's capacity is used: by the server itself, by other processes on its CPUs, or by other
processes of its cgroup. So idle + used = capacity x time. Neither total ever decreases.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from uwsgi_headroom.kernel.cpus import GroupQuota
from uwsgi_headroom.kernel.machine_cpu import MachineCpu, MachineTimes

QUOTA_PERIOD = 0.1
"""Seconds, the kernel's default. A step may contain one period too many, so a group may seem to exceed its quota by
one period; that excess counts against the next step."""

LEAST_ACCOUNTED = 0.5
"""The smallest fraction of a step that a CPU must report as idle or used. Emulated kernels write zeros, which does not
mean that the CPUs are saturated."""


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Totals since the first reading: the measured time in seconds, and the CPU seconds idle and used at the tightest
    level."""

    measured_seconds: float = 0.0
    idle_seconds: float = 0.0
    used_seconds: float = 0.0


class ServerCpu:
    """Adds up the readings of the machine for one server. An unknown step adds nothing."""

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
