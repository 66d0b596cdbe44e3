"""Reads each worker process: CPU time, memory, context switches, descriptors, affinity.

Only children of the proven master are read: a PID in the stats document may be reused by now, but a child of the master
is one of its workers in any case.

With CPU residency, `read_threads` reads each thread as well.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import islice
from math import inf
from typing import NamedTuple, TypeVar

import psutil
from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.procfs import TICKS

T = TypeVar("T")

_PAGE = os.sysconf("SC_PAGE_SIZE")

LOW_SECONDS = 5.0
"""The least memory is that of at most so many seconds, and of half of them at least."""


class WorkerProcess(Struct, frozen=True):
    """One worker process at one instant. A figure is None if this user may not read it."""

    pid: int

    cpu_user_seconds: float | None = None
    cpu_system_seconds: float | None = None
    """CPU time of all threads since the start of the process."""
    resident_bytes: int | None = None

    voluntary_context_switches: int | None = None
    involuntary_context_switches: int | None = None
    """Of the main thread only, since its start: the kernel counts per thread."""
    open_fds: int | None = None
    """The only figure that needs a privilege, and only before Linux 6.2 (see `procfs.count_descriptors`)."""
    affinity: tuple[int, ...] | None = None

    last_cpu: int | None = None
    """The CPU on which the main thread last ran."""
    start_time: float | None = None
    """Epoch seconds, to a hundredth."""
    anonymous_bytes: int | None = None
    """Memory without a file, resident or swapped (proc_pid_status(5)); others may share it, copied on write."""
    children_cpu_seconds: float | None = None
    """CPU time of the process's own children that have ended and were waited for."""
    most_fds: int | None = None
    """How many descriptors it may have open (RLIMIT_NOFILE); None without a limit."""
    address_left: int | None = None
    """Bytes of address space that it may still take (RLIMIT_AS, uWSGI's `limit-as`); None without a limit."""
    is_stopped: bool = False
    """Whether a signal such as SIGSTOP has stopped it."""
    tracer: tuple[int, str] = (0, "")
    """The process that traces it, a debugger or strace(1), and its name; 0 without one."""
    threads: int | None = None
    """All of them, also those that serve no request."""
    threads_since: float = 0.0
    """When their number was first seen as it is now (monotonic)."""
    low_bytes: int | None = None
    """The least resident memory within the last LOW_SECONDS: what it keeps between requests that take and give back."""


class Processes:
    """Reads the workers repeatedly."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._workers: dict[int, WorkerProcess] = {}

    def read(
        self, master_pid: int, pids: Sequence[int], *, quick: bool = False, at_rest: Collection[int] = (), also: int = 0
    ) -> dict[int, WorkerProcess]:
        """The living children of `master_pid` among `pids`, by PID; the same object as long as nothing changes.

        With `quick`, it reads only `/proc/<pid>/stat` (whether the process is alive, its CPU time and last CPU). The
        other figures, which take four times as long, are copied from the last reading of the same process; for
        processes `at_rest`, all figures are copied. also: a process that is read although it is no child.
        """
        known: dict[int, _Known] = {}
        for pid in pids:
            before = self._known.get(pid)
            if before and quick and pid in at_rest:
                known[pid] = before
                continue
            try:
                line = procfs.KEPT.read_line(f"/proc/{pid}/stat")
                if before and quick and line == before.line:
                    known[pid] = before
                    continue
                stat = procfs.parse_process_stat(line)
                if (stat.parent == master_pid or pid == also) and not stat.has_ended:
                    same = before if before and before.stat.start == stat.start else None  # or the PID was reused
                    known[pid] = _read(pid, line, stat, same, quick=quick)
            except (FileNotFoundError, ProcessLookupError):
                continue  # the process has ended
            except (OSError, ValueError) as error:
                # If the exporter is short of descriptors or memory, living workers must not count as dead.
                if before and getattr(error, "errno", errno.EIO) in procfs.PASSING:
                    known[pid] = before
        if len(known) != len(self._known) or any(self._known.get(pid) is not each for pid, each in known.items()):
            self._workers = {pid: each.worker for pid, each in known.items()}
            for ended in self._known.keys() - known.keys():
                procfs.KEPT.forget(ended)
        self._known = known
        return self._workers


class _Lows(NamedTuple):
    """The least pages of resident memory since `began` (monotonic), and in the half of LOW_SECONDS before."""

    since: int
    before: int | float = inf
    began: float = -inf

    @property
    def least(self) -> int:
        return int(min(self.since, self.before))

    def add(self, pages: int) -> _Lows:
        now = time.monotonic()
        if now - self.began < LOW_SECONDS / 2:
            return self if pages >= self.since else self._replace(since=pages)
        return _Lows(pages, self.since, now)


class _Known(NamedTuple):
    """The last reading of a process: its `stat` file as it was and its fields, and all figures."""

    line: bytes
    stat: procfs.ProcessStat
    worker: WorkerProcess
    lows: _Lows


_STATUS = re.compile(
    rb"^(TracerPid|VmSize|VmRSS|RssAnon|VmSwap|voluntary_ctxt_switches|nonvoluntary_ctxt_switches):\s*(\d+)( kB)?",
    re.MULTILINE,
)


def _read(pid: int, line: bytes, stat: procfs.ProcessStat, before: _Known | None, *, quick: bool) -> _Known:
    """A process as it is now. before: the same process as it was. Raises OSError."""
    worker = before.worker if before else WorkerProcess(pid)
    if worker.start_time is None:
        worker = replace(worker, start_time=procfs.read_start(pid))
    lows = (before.lows if before else _Lows(stat.pages)).add(stat.pages)
    now = replace(
        worker,
        **({} if before and quick else _read_slow(pid)),
        cpu_user_seconds=stat.user / TICKS,
        cpu_system_seconds=stat.system / TICKS,
        last_cpu=stat.cpu,
        children_cpu_seconds=(stat.children_user + stat.children_system) / TICKS,
        is_stopped=stat.state == "T",
        threads=stat.threads or None,
        threads_since=worker.threads_since if worker.threads == stat.threads else time.monotonic(),
        low_bytes=lows.least * _PAGE,
    )
    return _Known(line, stat, now, lows)


def _read_slow(pid: int) -> dict[str, object]:
    """The figures of a process that are not in its `stat` file, each file read once. Raises FileNotFoundError or
    ProcessLookupError if it has ended.

    psutil's own functions for these files take three times as long, which was a tenth of the exporter's cost.
    """
    text = _value_if_permitted(lambda: procfs.read_file(f"/proc/{pid}/status")) or b""
    status = {name: int(number) * (1024 if unit else 1) for name, number, unit in _STATUS.findall(text)}
    limits = _value_if_permitted(lambda: procfs.read_limits(pid)) or {}
    space = limits.get("address space")
    return {
        "tracer": _find_tracer(status.get(b"TracerPid", 0)),
        "resident_bytes": status.get(b"VmRSS"),
        "anonymous_bytes": (b"RssAnon" in status or None) and status[b"RssAnon"] + status.get(b"VmSwap", 0),
        "voluntary_context_switches": status.get(b"voluntary_ctxt_switches"),
        "involuntary_context_switches": status.get(b"nonvoluntary_ctxt_switches"),
        "open_fds": _value_if_permitted(lambda: procfs.count_descriptors(pid)),
        "most_fds": limits.get("open files"),
        "address_left": (space and b"VmSize" in status and space - status[b"VmSize"]) or None,
        "affinity": _value_if_permitted(lambda: tuple(sorted(os.sched_getaffinity(pid)))),
    }


def _find_tracer(pid: int) -> tuple[int, str]:
    with suppress(OSError):
        return pid, procfs.read_name(pid)
    return 0, ""


def _value_if_permitted(ask: Callable[[], T]) -> T | None:
    """The result of `ask`, or None if this user may not read it. Raises as `_read`."""
    try:
        return ask()
    except (FileNotFoundError, ProcessLookupError):
        raise
    except (OSError, ValueError):
        return None


Threads = dict[int, tuple[int, float]]
"""The CPU on which each thread last ran, and the thread's CPU seconds since its start, by thread id."""


def read_threads(pid: int) -> Threads:
    """Read every thread of a process. Returns an empty dict if the process has ended.

    The kernel does not count CPU time per thread and CPU. A thread's CPU time since the last reading is attributed to
    the CPU on which it last ran. That is exact for a pinned thread, and accurate on average for one that moves less
    often than it is read.
    """
    by_thread: Threads = {}
    folder = f"/proc/{pid}/task"
    with suppress(OSError):  # the process has ended
        for thread in os.listdir(folder):
            with suppress(OSError):  # this thread has ended
                stat = procfs.parse_process_stat(procfs.read_line(f"{folder}/{thread}/stat"))
                by_thread[int(thread)] = stat.cpu, stat.cpu_seconds
    return by_thread


MOST_CHILDREN = 1024
"""How many children of a master are read at most, 0.03 ms each. A hostile master may have any number."""

_MOST_BYTES = 64 << 10
_MOST_THREADS = 64


def list_children(pid: int) -> list[int]:
    """The children of a process, the oldest of each thread first; none if it has ended."""
    children: list[int] = []
    try:
        for thread in islice(os.listdir(f"/proc/{pid}/task"), _MOST_THREADS):
            with suppress(ProcessLookupError):
                text = procfs.read_begin(_MOST_BYTES, f"/proc/{pid}/task/{thread}/children")
                words = (text if len(text) < _MOST_BYTES else text.rpartition(b" ")[0]).split()  # one may be cut off
                children += map(int, words[: MOST_CHILDREN - len(children)])
    except FileNotFoundError:  # the thread has ended, or the kernel has no such file (CONFIG_PROC_CHILDREN)
        with suppress(psutil.Error, OSError):
            return [child.pid for child in psutil.Process(pid).children()][:MOST_CHILDREN]
    except (OSError, ValueError):
        pass
    return children
