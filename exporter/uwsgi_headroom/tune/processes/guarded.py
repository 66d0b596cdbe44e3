"""Starts commands under a guard, ends them with everything that they started, and reads how much CPU and memory a run
uses: of the machine, and of processes with all their descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO

from uwsgi_headroom.errors import HeadroomError
from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.cpus import parse_stat
from uwsgi_headroom.tune.processes import guard

STOP_SECONDS = 5.0
"""How long a command may take to end after the signal, before it is killed."""

CHECK_SECONDS = 0.2
"""How often the processes of a run are checked while it is measured."""

_KILL_SECONDS = 20.0

_TAIL_LINES = 15
_TAIL_BYTES = 8192


class RunError(HeadroomError):
    """A run has no result; the message says why, as a sentence."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A command that runs under a guard. `process` is the guard: it ends with the command and has its exit status."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def pids(self) -> list[int]:
        """Return the PIDs of the command and of all processes below it."""
        return guard.descendants(self.process.pid)

    def ended(self) -> str | None:
        """Return how the command ended, with the end of its log; None while it runs."""
        status = self.process.poll()
        return None if status is None else f"{self.name} ended ({_describe_status(status)}){self.last_words()}"

    def refuse_if_ended(self) -> None:
        """Raise `RunError` if the command has ended."""
        if sentence := self.ended():
            raise RunError(sentence)

    def last_words(self) -> str:
        """Return the end of the log as the end of a sentence."""
        lines = _read_tail(self.log)
        return ". Its log ends with:\n" + "\n".join(f"  | {line}" for line in lines) if lines else " without output."


@contextlib.contextmanager
def guarded(
    name: str,
    command: Sequence[str],
    *,
    log: Path,
    temporary: Path | None = None,
    output: int | IO[bytes] | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stop: signal.Signals = signal.SIGTERM,
) -> Iterator[Guarded]:
    """Run a command during the block; then end it, first with the signal `stop`.

    log: the file for its errors, and for its output unless `output` is given. temporary: a directory that the guard
    removes if this process is killed. Raises `RunError` if the setup is wrong, or a process cannot be ended, and
    OSError if no process can be started.
    """
    try:
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, str(temporary or ""), *command],
                stdin=subprocess.PIPE,
                stdout=errors if output is None else output,
                stderr=errors,
                cwd=cwd,
                env=environment,
                start_new_session=True,  # Ctrl-C in a terminal reaches the runner only
            )
    except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError) as error:
        raise RunError(f"{name} cannot be started in {cwd or Path.cwd()}: {error}.") from error
    running = Guarded(name, process, log)
    try:
        yield running
    finally:
        _end(running, stop)


def _end(running: Guarded, stop: signal.Signals) -> None:
    """End the command with a signal, then everything below the guard with SIGKILL."""
    process = running.process
    try:
        if process.poll() is None:
            process.send_signal(stop)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
    finally:  # also after another Ctrl-C
        assert process.stdin
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b".")
            process.stdin.flush()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    try:
        status = process.wait(_KILL_SECONDS)
    except subprocess.TimeoutExpired:
        status = guard.LEFT_OVER
    if status == guard.LEFT_OVER:
        raise RunError(f"{running.name} cannot be ended: the processes {running.pids()} are left.")


def _describe_status(status: int) -> str:
    number = -status if status < 0 else status - 128 if status > 128 else 0
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"status {status}"


def _read_tail(log: Path) -> list[str]:
    with contextlib.suppress(OSError), log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
        return [line for line, _ in groupby(lines)][-_TAIL_LINES:]  # a repeated message would hide its cause
    return []


SAMPLE_SECONDS = 0.25
"""The shortest time between two samples of CPU time, and of memory."""

_MOST_CPU = 0.02
"""The share of a CPU that sampling each of the two may take: for memory, the kernel walks the page tables of each
process."""

_TICKS = os.sysconf("SC_CLK_TCK")
_OWN, _WAITED_FOR = (11, 12), (13, 14)  # utime and stime, cutime and cstime: fields 14 to 17 of proc_pid_stat(5)


@dataclass(frozen=True, slots=True)
class CpuUse:
    """CPU time in seconds since the start: idle and used by each CPU of the machine, and by each guarded tree."""

    at: float
    idle: dict[int, float]
    used: dict[int, float]
    trees: tuple[float, ...]

    def since(self, before: CpuUse) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
        """Return the busy part of each CPU, 0 to 1, and the CPUs that each tree used since an earlier reading."""
        parts = []
        for cpu in sorted(self.used.keys() & before.used.keys()):
            used = max(0.0, self.used[cpu] - before.used[cpu])
            total = used + max(0.0, self.idle[cpu] - before.idle[cpu])
            parts.append(used / total if total else 0.0)
        seconds = self.at - before.at
        return tuple(parts), tuple(
            max(0.0, now - then) / seconds for now, then in zip(self.trees, before.trees, strict=True)
        )


class CpuMeter:
    """The CPU time that was used since the meter was made, as of its latest reading."""

    def __init__(self, guards: Sequence[int]) -> None:
        self._guards = guards
        self._first = self._latest = read_cpu(guards)
        self._next_at = self._first.at + SAMPLE_SECONDS

    def read(self) -> None:
        """Read again, unless the latest reading is young, or a guard is gone and the time of its processes with it."""
        if time.monotonic() < self._next_at:
            return
        began = time.thread_time()
        with contextlib.suppress(KeyError):
            self._latest = read_cpu(self._guards)
        self._next_at = self._latest.at + _pause(time.thread_time() - began)

    def use(self) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
        """Return the busy part of each CPU of the machine, 0 to 1, and the CPUs that the processes below each guard
        used; None if there was one reading only."""
        if self._latest is self._first:
            return (), (None,) * len(self._guards)
        return self._latest.since(self._first)


def read_cpu(guards: Sequence[int]) -> CpuUse:
    """Read the CPU time of the machine, and of the processes below each of these guards.

    A process that has ended is in the time of the one that waited for it, in the end the guard. Missing are only
    children of a process that ignores SIGCHLD. Raises KeyError if a guard is gone.
    """
    stats = guard.read_stats()
    trees = tuple(
        _seconds(stats[pid], _WAITED_FOR)
        + sum(_seconds(stats[each], _OWN + _WAITED_FOR) for each in guard.descendants(pid, stats))
        for pid in guards
    )
    idle, used = parse_stat(procfs.read_file("/proc/stat"))
    return CpuUse(time.monotonic(), idle, used, trees)


def _seconds(fields: list[bytes], wanted: Iterable[int]) -> float:
    return sum(int(fields[field]) for field in wanted) / _TICKS


def _pause(cost: float) -> float:
    """The seconds until the next sample, if the last one took this much CPU time."""
    return max(SAMPLE_SECONDS, cost / _MOST_CPU)


def read_memory(pids: Iterable[int]) -> int | None:
    """Return the bytes that processes take together: the sum of their proportional set sizes (PSS, `smaps_rollup` of
    proc(5)), which counts a page that n processes share as a part of n. None if none can be read."""
    total = None
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):  # the process has ended, or belongs to another user
            for line in procfs.read_file(f"/proc/{pid}/smaps_rollup").splitlines():
                if line.startswith(b"Pss:"):
                    total = (total or 0) + 1024 * int(line.split()[1])
                    break
    return total


class MemoryPeak:
    """The most memory that processes took together in any sample, in bytes; None if unknown."""

    def __init__(self, pids: Callable[[], list[int]]) -> None:
        self._pids = pids
        self.largest: int | None = None

    def sample(self) -> float:
        """Sample once; return the seconds to wait until the next sample."""
        began = time.thread_time()
        size = read_memory(self._pids())
        if size is not None:
            self.largest = max(size, self.largest or 0)
        return _pause(time.thread_time() - began)


@contextlib.contextmanager
def watching_memory(pids: Callable[[], list[int]]) -> Iterator[MemoryPeak]:
    """Sample the memory of processes during the block, a few times a second."""
    peak, done = MemoryPeak(pids), threading.Event()

    def watch() -> None:
        while not done.wait(peak.sample()):
            pass

    thread = threading.Thread(target=watch, name="memory", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
