"""What the kernel knows about each worker process: CPU, memory, switches, descriptors, CPUs.

Only children of the proven master are read. A pid from the stats document may be reused by the time it is
read here; a process whose parent is the master is a worker of it, whichever.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import psutil

from uwsgi_headroom.kernel import procfs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

T = TypeVar("T")

_TICKS = os.sysconf("SC_CLK_TCK")

_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors that say nothing of the process that is asked about."""


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """One worker process at one instant.

    CPU in seconds since it started, its threads together; `children_cpu_seconds` of the processes that it started and
    waited for, which count when they have ended. Switches since it started, of its main thread
    only (the kernel keeps them per thread); `last_cpu` too is where the main thread ran last. `start_time`
    is in seconds since the epoch, to a hundredth. None: this user may not know. `open_fds` needs a
    privilege (see `descriptors`), the others none. `anonymous_bytes` is the part of the resident memory that is no
    file's, which other processes may share copied on write (RssAnon of proc_pid_status(5)).
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
    anonymous_bytes: int | None = None
    children_cpu_seconds: float | None = None


class Processes:
    """Reads workers, again and again: psutil's objects are kept, for they notice that a pid was reused."""

    def __init__(self) -> None:
        self._known: dict[int, psutil.Process] = {}
        self._last: dict[int, tuple[_StatFields, WorkerProcess]] = {}

    def read(
        self, master_pid: int, pids: Sequence[int], *, quick: bool = False, at_rest: Collection[int] = ()
    ) -> dict[int, WorkerProcess]:
        """Those of `pids` that are alive and children of `master_pid`; the others are not in the answer.

        `quick` asks only for what one look at a process brings (that it lives, its CPU time and where it ran). The
        rest, which takes five times as long, is repeated from the last reading of the same process; so is all of it
        for processes `at_rest`.
        """
        known: dict[int, psutil.Process] = {}
        last: dict[int, tuple[_StatFields, WorkerProcess]] = {}
        for pid in pids:
            if quick and pid in at_rest and pid in self._last:
                known[pid], last[pid] = self._known[pid], self._last[pid]
                continue
            try:
                process = self._known.get(pid) or psutil.Process(pid)
                look = _read_stat(pid)
                before = self._last.get(pid)
                if quick and before and look.is_of(before[0], master_pid):
                    worker: WorkerProcess | None = before[1] if look == before[0] else look.update(before[1])
                else:
                    worker = _read(process, master_pid)
            except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                # Gone, or the pid has a new owner: that one is looked at from scratch at the next reading.
                continue
            except (psutil.Error, OSError, ValueError) as error:
                # An exporter that is short of descriptors or memory must not take living workers for dead.
                if isinstance(error, OSError) and error.errno in _OURS and pid in self._last and pid in self._known:
                    known[pid], last[pid] = self._known[pid], self._last[pid]
                continue
            known[pid] = process
            if worker is not None:
                last[pid] = look, worker
        self._known, self._last = known, last
        return {pid: worker for pid, (_, worker) in last.items()}


class _StatFields(NamedTuple):
    """What `/proc/<pid>/stat` says: times in clock ticks, `start` since the machine's own."""

    state: str
    parent: int
    user: int
    system: int
    children_user: int
    children_system: int
    start: int
    cpu: int

    def is_of(self, before: _StatFields, master_pid: int) -> bool:
        """Whether this is still the process of an earlier look, alive and a child of the master."""
        return self.start == before.start and self.parent == master_pid and self.state not in "ZX"

    def update(self, worker: WorkerProcess) -> WorkerProcess:
        return replace(
            worker,
            cpu_user_seconds=self.user / _TICKS,
            cpu_system_seconds=self.system / _TICKS,
            last_cpu=self.cpu,
            children_cpu_seconds=(self.children_user + self.children_system) / _TICKS,
        )


def _read_stat(pid: int) -> _StatFields:
    """Raises OSError, or ValueError where it is not what proc(5) says."""
    fields = procfs.read_stat_fields(f"/proc/{pid}/stat")
    if len(fields) < 37:
        raise ValueError(f"/proc/{pid}/stat has {len(fields)} fields after the name")
    return _StatFields(fields[0].decode(), *(int(fields[at]) for at in (1, 11, 12, 13, 14, 19, 36)))


def _read(process: psutil.Process, master_pid: int) -> WorkerProcess | None:
    """None if it is not a living child of the master. Raises NoSuchProcess; asks /proc for each file once."""
    with process.oneshot():
        if process.ppid() != master_pid or process.status() == psutil.STATUS_ZOMBIE:
            return None
        cpu = _value_if_permitted(process.cpu_times)
        memory = _value_if_permitted(process.memory_info)
        switches = _value_if_permitted(process.num_ctx_switches)
        affinity = _value_if_permitted(process.cpu_affinity)
        return WorkerProcess(
            pid=process.pid,
            cpu_user_seconds=cpu and cpu.user,
            cpu_system_seconds=cpu and cpu.system,
            resident_bytes=memory and memory.rss,
            voluntary_context_switches=switches and switches.voluntary,
            involuntary_context_switches=switches and switches.involuntary,
            open_fds=_value_if_permitted(process.num_fds),
            affinity=tuple(affinity) if affinity else None,
            last_cpu=_value_if_permitted(process.cpu_num),
            start_time=_value_if_permitted(process.create_time),
            # A resident page is anonymous, of a file, or of shared memory; the latter two are what statm calls shared.
            anonymous_bytes=memory and memory.rss - memory.shared,
            children_cpu_seconds=cpu and cpu.children_user + cpu.children_system,
        )


def _value_if_permitted(ask: Callable[[], T]) -> T | None:
    """The answer, or None where this user may not have it."""
    try:
        return ask()
    except psutil.NoSuchProcess:
        raise
    except (psutil.Error, OSError, NotImplementedError):
        return None
