"""Reads each worker process: CPU time, memory, context switches, descriptors, affinity.

Only children of the proven master are read. A PID in the stats document may be reused by now, but a process whose
parent is the master is one of its workers in any case.

If CPU residency is enabled, `read_threads` reads each thread as well.
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

T = TypeVar("T")

_TICKS = os.sysconf("SC_CLK_TCK")

_PAGE = os.sysconf("SC_PAGE_SIZE")

LOW_SECONDS = 5.0
"""The least memory is that of at most so many seconds, and of half of them at least."""

_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors that mean a lack of resources in the exporter itself, and say nothing about the worker."""


class WorkerProcess(Struct, frozen=True):
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
    """The only figure that needs a privilege, and only before Linux 6.2 (see `procfs.count_descriptors`)."""
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
    most_fds: int | None = None
    """How many descriptors it may have open (RLIMIT_NOFILE); None without a limit."""
    is_stopped: bool = False
    """Whether it is stopped: by a signal such as SIGSTOP, or by a debugger."""
    threads: int | None = None
    """All of them, also those that serve no request."""
    threads_since: float = -inf
    """When their number was first seen as it is now (monotonic)."""
    low_bytes: int | None = None
    """The least resident memory that was read within the last LOW_SECONDS: what it keeps between requests that take
    memory and give it back."""


class Processes:
    """Reads the workers repeatedly. It keeps psutil's objects, which know the start of each process."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}
        self._workers: dict[int, WorkerProcess] = {}

    def read(
        self, master_pid: int, pids: Sequence[int], *, quick: bool = False, at_rest: Collection[int] = ()
    ) -> dict[int, WorkerProcess]:
        """The living children of `master_pid` among `pids`, by PID; the same object as long as nothing changes.

        With `quick`, it reads only `/proc/<pid>/stat` (whether the process is alive, its CPU time and last CPU). The
        other figures, which take four times as long, are copied from the last reading of the same process; for
        processes `at_rest`, all figures are copied.
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
                stat = _parse_stat(line)
                if stat.parent != master_pid or stat.state in "ZX":
                    continue
                if before and stat.start != before.stat.start:
                    before = None  # the PID was reused
                is_same = before is not None and before.stat.threads == stat.threads
                since = before.worker.threads_since if before and is_same else time.monotonic()
                lows = (before.lows if before else _Lows(stat.pages)).add(stat.pages)
                if before and quick:
                    process, worker = before.process, before.worker
                else:
                    process = before.process if before else psutil.Process(pid)
                    worker = _read(process)
                known[pid] = _Known(process, line, stat, stat.update(worker, since, lows.least), lows)
            except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                continue  # the process has ended
            except (psutil.Error, OSError, ValueError) as error:
                # If the exporter is short of descriptors or memory, living workers must not count as dead.
                if isinstance(error, OSError) and error.errno in _OURS and before:
                    known[pid] = before
        if len(known) != len(self._known) or any(self._known.get(pid) is not each for pid, each in known.items()):
            self._workers = {pid: each.worker for pid, each in known.items()}
            for ended in self._known.keys() - known.keys():
                procfs.KEPT.forget(ended)
        self._known = known
        return self._workers


class _StatFields(NamedTuple):
    """Fields of the `stat` file of a process or thread (proc_pid_stat(5)). Times are in clock ticks; `start` counts
    from the machine's boot. pages: of resident memory, to a few megabytes."""

    state: str
    parent: int
    user: int
    system: int
    children_user: int
    children_system: int
    threads: int
    start: int
    pages: int
    cpu: int

    def update(self, worker: WorkerProcess, threads_since: float, least_pages: int) -> WorkerProcess:
        """The figures of a process, with those of its `stat` file as they are now."""
        return replace(
            worker,
            cpu_user_seconds=self.user / _TICKS,
            cpu_system_seconds=self.system / _TICKS,
            last_cpu=self.cpu,
            children_cpu_seconds=(self.children_user + self.children_system) / _TICKS,
            is_stopped=self.state in "Tt",
            threads=self.threads or None,
            threads_since=threads_since,
            low_bytes=least_pages * _PAGE,
        )


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

    process: psutil.Process
    line: bytes
    stat: _StatFields
    worker: WorkerProcess
    lows: _Lows


def _parse_stat(line: bytes) -> _StatFields:
    """Raises ValueError if the line is not as in proc_pid_stat(5)."""
    fields = line.rpartition(b")")[2].split()
    if len(fields) < 37:
        raise ValueError(f"a stat file has {len(fields)} fields after the name")
    return _StatFields(fields[0].decode(), *[int(fields[at]) for at in (1, 11, 12, 13, 14, 17, 19, 21, 36)])


_STATUS = re.compile(rb"^(VmRSS|RssAnon|voluntary_ctxt_switches|nonvoluntary_ctxt_switches):\s*(\d+)", re.MULTILINE)


def _read(process: psutil.Process) -> WorkerProcess:
    """Read every figure that is not in the `stat` file, each file once. Raises NoSuchProcess or OSError if the process
    has ended.

    psutil's own functions for these files take three times as long, which was a tenth of the exporter's cost.
    """
    pid = process.pid
    status = {name: int(number) for name, number in _STATUS.findall(procfs.read_file(f"/proc/{pid}/status"))}
    resident, anonymous = status.get(b"VmRSS"), status.get(b"RssAnon")
    affinity = _value_if_permitted(process.cpu_affinity)
    return WorkerProcess(
        pid=pid,
        cpu_user_seconds=None,
        cpu_system_seconds=None,
        resident_bytes=None if resident is None else resident * 1024,
        voluntary_context_switches=status.get(b"voluntary_ctxt_switches"),
        involuntary_context_switches=status.get(b"nonvoluntary_ctxt_switches"),
        open_fds=_value_if_permitted(lambda: procfs.count_descriptors(pid)),
        affinity=tuple(affinity) if affinity else None,
        last_cpu=None,
        start_time=_value_if_permitted(process.create_time),
        anonymous_bytes=None if anonymous is None else anonymous * 1024,
        most_fds=_value_if_permitted(lambda: procfs.read_descriptor_limit(pid)),
    )


def _value_if_permitted(ask: Callable[[], T]) -> T | None:
    """The result of `ask`, or None if this user may not read it. Raises NoSuchProcess or FileNotFoundError if the
    process has ended."""
    try:
        return ask()
    except (psutil.NoSuchProcess, FileNotFoundError):
        raise
    except (psutil.Error, OSError):
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
                stat = _parse_stat(procfs.read_line(f"{folder}/{thread}/stat"))
                by_thread[int(thread)] = stat.cpu, (stat.user + stat.system) / _TICKS
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
    except OSError:
        pass
    return children
