"""Adds up for how long the kernel stopped a server because a cgroup of it had used its CPU quota.

A quota is a number of CPU seconds for each period of 0.1 s, by default. When the processes of the cgroup have used it,
all of them are stopped until the period ends: work that could run does not, also while CPUs are idle, and also if the
mean use is far below the quota. The kernel counts that in `cpu.stat` of the cgroup: see "CFS Bandwidth Control" in
Documentation/scheduler/sched-bwc.rst. Every level of the cgroup tree may have a quota of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.cpus import UsableCpus
from uwsgi_headroom.record import Quota


@dataclass(frozen=True, slots=True)
class Throttling:
    """Totals since the first reading, of the level that throttled most in each step: the periods in which a process of
    the cgroup could run, those in which they were stopped, and the seconds for which they were, summed over the CPUs.
    quota: that of the level which throttled last; before any did, the tightest."""

    quota: Quota
    periods: int = 0
    throttled_periods: int = 0
    throttled_seconds: float = 0.0


class Counts(NamedTuple):
    """The kernel's counts of one cgroup since its creation."""

    periods: int
    throttled: int
    seconds: float


class ThrottleCounts:
    """Reads the quotas of one server again and again."""

    def __init__(self) -> None:
        self._then: dict[str, Counts] = {}
        self._total: Throttling | None = None

    def read(self, cpus: UsableCpus) -> Throttling | None:
        """The totals as of now; None without a quota, or if its counts cannot be read. Never raises. cpus: those that
        the server can use, with its cgroups that have a quota."""
        groups, allowed = cpus.groups, min(cpus.host, cpus.affinity)
        now = {group.stat_file: counts for group in groups if (counts := read_counts(group.stat_file))}
        then, self._then = self._then, now
        if not now:
            self._total = None
            return None
        quotas = {group.stat_file: Quota(group.name, group.cpus, allowed) for group in groups if group.stat_file in now}
        tightest = min(quotas.values(), key=lambda quota: quota.cpus)
        total = self._total or Throttling(tightest)
        grown = {path: _subtract(counts, then[path]) for path, counts in now.items() if path in then}
        if grown:
            path = max(grown, key=lambda path: (grown[path].throttled, grown[path].periods))
            most = grown[path]
            total = Throttling(
                quotas[path] if most.throttled else _keep(total.quota, quotas, tightest),
                total.periods + most.periods,
                total.throttled_periods + most.throttled,
                total.throttled_seconds + most.seconds,
            )
        self._total = total
        return total


def _keep(known: Quota, quotas: dict[str, Quota], tightest: Quota) -> Quota:
    """The quota as it is now of the cgroup that throttled last."""
    return next((quota for quota in quotas.values() if quota.cgroup == known.cgroup), tightest)


def _subtract(now: Counts, then: Counts) -> Counts:
    """The growth; none if the cgroup was made anew."""
    if now.periods < then.periods or now.throttled < then.throttled:
        return Counts(0, 0, 0.0)
    return Counts(now.periods - then.periods, now.throttled - then.throttled, max(0.0, now.seconds - then.seconds))


def read_counts(path: str) -> Counts | None:
    """The counts in a `cpu.stat` file: `throttled_usec` in version 2, `throttled_time` (nanoseconds) in version 1; None
    if it cannot be read or has none."""
    try:
        pairs = [line.split() for line in procfs.read_file(path).splitlines()]
        counts = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
        seconds = counts[b"throttled_usec"] / 1e6 if b"throttled_usec" in counts else counts[b"throttled_time"] / 1e9
        return Counts(counts[b"nr_periods"], counts[b"nr_throttled"], seconds)
    except (OSError, ValueError, KeyError):
        return None
