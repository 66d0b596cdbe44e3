"""Who uses the CPU that a server could use: its own workers, or others.

The kernel says how much is used (`kernel.server_cpu`) and how much of that by each worker; others have the rest. No
step gives the workers more than was used in it, and the excess waits for the next step: it is a reading a moment late,
or a child process that ended and whose CPU time comes all at once. So own + idle + others = capacity x time.

The last CPU time of a worker that ended while the server could not be read (a failed read, a pause) is not known, and
would be put down to others: what others used is then unknown for that time.
"""

from __future__ import annotations

from uwsgi_headroom.history.totals import CpuTotals, Totals
from uwsgi_headroom.kernel.server_cpu import CpuTimes
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Worker

MOST_WAITING = 10.0
"""CPU seconds that may wait for a next step. A child process that used more did so long before it ended, and counts as
one of the others."""


class CpuUse:
    """Adds the CPU times of readings to a server's totals. It keeps what was so at the last new times."""

    def __init__(self) -> None:
        self._times: CpuTimes | None = None
        self._own = 0.0
        self._waiting = 0.0
        self._pids: list[int | None] = []
        self._looked = True

    def add(self, totals: Totals, reading: Reading, workers: tuple[Worker, ...], *, bridged: bool) -> None:
        """Add a reading, when its workers' own CPU time is in the totals. bridged: nothing happened unseen since the
        reading before."""
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
    """What all workers have used; None where one of them is not known. A slot that was never used has used nothing."""
    if any(worker.cpu_since is None for worker in totals.workers):
        return None
    return sum([(worker.cpu_seconds or 0.0) + worker.children_cpu_seconds for worker in totals.workers])
