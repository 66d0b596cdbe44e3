"""What the kernel knows about each worker process: CPU, memory, switches, descriptors, CPUs.

Only children of the proven master are read. A pid from the stats document may be reused by the time it is
read here; a process whose parent is the master is a worker of it, whichever.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from uwsgi_headroom.kernel import procfs

if TYPE_CHECKING:
    from collections.abc import Sequence

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """One worker process at one instant.

    CPU in seconds since it started, its threads together. Switches since it started, of its main thread
    only (the kernel keeps them per thread); `last_cpu` too is where the main thread ran last. `start_time`
    is in seconds since the epoch, to a hundredth. None: this user may not know. `open_fds` needs a
    privilege (see `descriptors`), the others none.
    """

    pid: int
    cpu_user_seconds: float | None
    cpu_system_seconds: float | None
    resident_bytes: int | None
    voluntary_context_switches: int | None
    involuntary_context_switches: int | None
    open_fds: int | None
    affinity: tuple[int, ...] | None
    last_cpu: int | None
    start_time: float | None


class Processes:
    """Reads workers: two small files of each, its affinity, and its descriptors. This happens several times a second,
    and psutil would take twice the CPU."""

    def read(self, master_pid: int, pids: Sequence[int]) -> dict[int, WorkerProcess]:
        """Those of `pids` that are alive and children of `master_pid`; the others are not in the answer."""
        workers: dict[int, WorkerProcess] = {}
        for pid in pids:
            with suppress(OSError, ValueError):  # gone, or hidden
                if worker := _read(pid, master_pid):
                    workers[pid] = worker
        return workers


def _read(pid: int, master_pid: int) -> WorkerProcess | None:
    """None if it is not a living child of the master. Raises OSError if it is nobody, or ends meanwhile."""
    # The name, in parentheses, may itself hold spaces and parentheses; proc_pid_stat(5) counts from 1 and from the pid.
    stat = procfs.read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    if int(stat[4 - 3]) != master_pid or stat[3 - 3] in b"ZX":
        return None
    status = procfs.read(f"/proc/{pid}/status")
    resident = _status(status, b"VmRSS")
    return WorkerProcess(
        pid=pid,
        cpu_user_seconds=int(stat[14 - 3]) / _TICKS,
        cpu_system_seconds=int(stat[15 - 3]) / _TICKS,
        resident_bytes=resident and resident * 1024,
        voluntary_context_switches=_status(status, b"voluntary_ctxt_switches"),
        involuntary_context_switches=_status(status, b"nonvoluntary_ctxt_switches"),
        open_fds=_open_fds(pid),
        affinity=tuple(sorted(os.sched_getaffinity(pid))),
        last_cpu=int(stat[39 - 3]),
        start_time=_boot_time() + int(stat[22 - 3]) / _TICKS,
    )


def _status(status: bytes, name: bytes) -> int | None:
    """A number of proc_pid_status(5)."""
    _, _, after = status.partition(b"\n" + name + b":")
    return int(after.split(maxsplit=1)[0]) if after else None


def _open_fds(pid: int) -> int | None:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        return None


@cache
def _boot_time() -> float:
    """Epoch seconds. Asked once: it moves when the clock is set, and a process must keep its start."""
    return float(procfs.read("/proc/stat").partition(b"\nbtime ")[2].split(maxsplit=1)[0])
