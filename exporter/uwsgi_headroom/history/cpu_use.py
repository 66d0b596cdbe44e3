"""Splits the CPU that a server could use into the use of its own workers, the use of others, and idle time.

The kernel reports the total use (`kernel.server_cpu`) and the use of each worker; the rest is the use of others. No
step attributes more to the workers than was used in the step. An excess is carried over to the next step: either the
two readings are not simultaneous, or a child process has ended, whose CPU time arrives all at once. So own + idle +
others = capacity x time.

If a worker ended while the server could not be read (a failed read, a pause), its last CPU time is unknown and would
count as the use of others. The use of others is therefore unknown for that time.
"""

from __future__ import annotations

from uwsgi_headroom.history.totals import CpuTotals, Totals
from uwsgi_headroom.kernel.cpus import CpuTimes
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker

MOST_WAITING = 10.0
"""The most CPU seconds that are carried over to the next step. A child process that used more did so long before its
end, and the excess counts as the use of others."""


class CpuUse:
    """Adds the CPU times of readings to a server's totals, and keeps the state as of the last new CPU times."""

    def __init__(self) -> None:
        self._times: CpuTimes | None = None
        self._own = 0.0
        self._waiting = 0.0
        self._pids: list[int | None] = []
        self._looked = True

    def add(self, totals: Totals, reading: Reading, workers: tuple[Worker, ...], *, bridged: bool) -> None:
        """Add a reading, after its workers' own CPU time was added to the totals. bridged: no gap since the previous
        reading."""
        self._looked = self._looked and bridged
        times = reading.host.cpu_times
        own = _own_seconds(totals)
        if times is None or own is None:
            self._times = None
            if totals.cpu is not None:
                totals.cpu.since = totals.cpu.others_since = None
            return
        if times is self._times:
            return
        cpu = totals.cpu = totals.cpu or CpuTotals()
        pids = [worker.pid for worker in workers]
        if self._times is None or len(pids) != len(self._pids):
            cpu.since = cpu.others_since = reading.at
        else:
            self._add_step(cpu, self._times, times, own, known=self._looked or pids == self._pids, at=reading.at)
        self._times, self._own, self._pids, self._looked = times, own, pids, True

    def _add_step(self, cpu: CpuTotals, then: CpuTimes, now: CpuTimes, own: float, *, known: bool, at: float) -> None:
        used = now.used_seconds - then.used_seconds
        claimed = self._waiting + own - self._own
        used_by_own = min(claimed, used)
        self._waiting = min(claimed - used_by_own, MOST_WAITING)
        cpu.measured_seconds += now.measured_seconds - then.measured_seconds
        cpu.idle_seconds += now.idle_seconds - then.idle_seconds
        cpu.own_seconds += used_by_own
        if known:
            cpu.others_seconds += used - used_by_own
        else:
            cpu.others_since = at


def _own_seconds(totals: Totals) -> float | None:
    """CPU seconds of all workers; None if those of one worker are unknown. A slot that was never used has used none."""
    if any(worker.cpu_since is None for worker in totals.workers):
        return None
    return sum([(worker.cpu_seconds or 0.0) + worker.children_cpu_seconds for worker in totals.workers])
