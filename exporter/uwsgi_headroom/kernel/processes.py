"""Reads each worker process: CPU time, memory, context switches, descriptors, affinity.

Only children of the proven master are read. A pid in the stats document may be reused by now, but a process whose
parent is the master is one of its workers in any case.

If CPU residency is enabled, `read_threads` reads each thread as well.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import psutil

from uwsgi_headroom.kernel import procfs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence


T = TypeVar("T")

_TICKS = os.sysconf("SC_CLK_TCK")

_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors that mean a lack of resources in the exporter itself, and say nothing about the worker."""


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """One worker process at one instant. A figure is None if this user may not read it."""

    pid: int

    cpu_user_seconds: float | None
    cpu_system_seconds: float | None
    """CPU time of all threads since the start of the process."""

    resident_bytes: int | None

    voluntary_context_switches: int | None
    involuntary_context_switches: int | None
    """Of the main thread only, since its start: the kernel counts per thread."""

    open_fds: int | None
    """The only figure that needs a privilege (see `procfs.read_socket_inodes`)."""

    affinity: tuple[int, ...] | None

    last_cpu: int | None
    """The CPU on which the main thread last ran."""

    start_time: float | None
    """Epoch seconds, to a hundredth."""

    anonymous_bytes: int | None = None
    """The resident memory that is not backed by a file (RssAnon of proc_pid_status(5)); other processes may share it,
    copied on write."""

    children_cpu_seconds: float | None = None
    """CPU time of the process's own children that have ended and were waited for."""


class Processes:
    """Reads the workers repeatedly. It keeps psutil's objects, which notice if a pid was reused."""

    def __init__(self) -> None:
        self._known: dict[int, psutil.Process] = {}
        self._last: dict[int, tuple[_StatFields, WorkerProcess]] = {}

    def read(
        self, master_pid: int, pids: Sequence[int], *, quick: bool = False, at_rest: Collection[int] = ()
    ) -> dict[int, WorkerProcess]:
        """The living children of `master_pid` among `pids`, by pid.

        With `quick`, it reads only `/proc/<pid>/stat` (whether the process is alive, its CPU time and last CPU). The
        other figures, which take five times as long, are copied from the last reading of the same process; for
        processes `at_rest`, all figures are copied.
        """
        known: dict[int, psutil.Process] = {}
        last: dict[int, tuple[_StatFields, WorkerProcess]] = {}
        for pid in pids:
            if quick and pid in at_rest and pid in self._last:
                known[pid], last[pid] = self._known[pid], self._last[pid]
                continue
            try:
                process = self._known.get(pid) or psutil.Process(pid)
                stat = _read_stat(f"/proc/{pid}")
                before = self._last.get(pid)
                if quick and before and stat.is_of(before[0], master_pid):
                    worker: WorkerProcess | None = before[1] if stat == before[0] else stat.update(before[1])
                else:
                    worker = _read(process, master_pid)
            except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                # The process has ended. If its pid was reused, the next reading begins with the new process.
                continue
            except (psutil.Error, OSError, ValueError) as error:
                # If the exporter is short of descriptors or memory, living workers must not count as dead.
                if isinstance(error, OSError) and error.errno in _OURS and pid in self._last and pid in self._known:
                    known[pid], last[pid] = self._known[pid], self._last[pid]
                continue
            known[pid] = process
            if worker is not None:
                last[pid] = stat, worker
        self._known, self._last = known, last
        return {pid: worker for pid, (_, worker) in last.items()}


class _StatFields(NamedTuple):
    """Fields of the `stat` file of a process or thread (proc_pid_stat(5)). Times are in clock ticks; `start` counts
    from the machine's boot."""

    state: str
    parent: int
    user: int
    system: int
    children_user: int
    children_system: int
    start: int
    cpu: int

    def is_of(self, before: _StatFields, master_pid: int) -> bool:
        """Whether this is the process of an earlier reading, alive and a child of the master."""
        return self.start == before.start and self.parent == master_pid and self.state not in "ZX"

    def update(self, worker: WorkerProcess) -> WorkerProcess:
        return replace(
            worker,
            cpu_user_seconds=self.user / _TICKS,
            cpu_system_seconds=self.system / _TICKS,
            last_cpu=self.cpu,
            children_cpu_seconds=(self.children_user + self.children_system) / _TICKS,
        )


def _read_stat(process: str) -> _StatFields:
    """Read the `stat` file in the directory of a process or thread. Raises OSError, or ValueError if it is not as in
    proc(5)."""
    fields = procfs.read_stat_fields(f"{process}/stat")
    if len(fields) < 37:
        raise ValueError(f"{process}/stat has {len(fields)} fields after the name")
    return _StatFields(fields[0].decode(), *(int(fields[at]) for at in (1, 11, 12, 13, 14, 19, 36)))


def _read(process: psutil.Process, master_pid: int) -> WorkerProcess | None:
    """Read every figure, each file once; None if the process is not a living child of the master. Raises
    NoSuchProcess."""
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
            # A resident page is anonymous, of a file, or of shared memory; statm calls the latter two shared.
            anonymous_bytes=memory and memory.rss - memory.shared,
            children_cpu_seconds=cpu and cpu.children_user + cpu.children_system,
        )


def _value_if_permitted(ask: Callable[[], T]) -> T | None:
    """The result of `ask`, or None if this user may not read it. Raises NoSuchProcess."""
    try:
        return ask()
    except psutil.NoSuchProcess:
        raise
    except (psutil.Error, OSError, NotImplementedError):
        return None


Threads = dict[int, tuple[int, float]]
"""The CPU on which each thread last ran, and the thread's CPU seconds since its start, by thread id."""


def read_threads(pid: int) -> Threads:
    """Read every thread of a process. Returns an empty dict if the process has ended.

    The kernel does not count CPU time per thread and CPU. The exporter attributes a thread's CPU time since the last
    reading to the CPU on which the thread last ran. That is exact for a pinned thread, and accurate on average for a
    thread that moves less often than the exporter reads it.
    """
    by_thread: Threads = {}
    folder = f"/proc/{pid}/task"
    with suppress(OSError):  # the process has ended
        for thread in os.listdir(folder):
            with suppress(OSError):  # this thread has ended
                stat = _read_stat(f"{folder}/{thread}")
                by_thread[int(thread)] = stat.cpu, (stat.user + stat.system) / _TICKS
    return by_thread
