"""Reads small files of `/proc` and `/sys`: a reading takes dozens, so the functions do no more than the system calls.
Files that the watched process can keep from answering are for `aside`."""

from __future__ import annotations

import errno
import math
import os
import re
import resource
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import islice
from typing import NamedTuple, TypeVar

T = TypeVar("T")


PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EINTR})
"""Errors that mean a lack of resources in the exporter itself, or a failing disk. They say nothing about what was to be
read: it is read again."""

_PART_BYTES = 16 << 10  # most files of /proc in one call


def read_file(*path: str | os.PathLike[str], most: int = sys.maxsize) -> bytes:
    """The whole file, with four system calls where `open` needs eight. Raises OSError, also for over `most` bytes."""
    text = read_begin(most + 1, *path)
    if len(text) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.path.join(*path))
    return text


_LINE_BYTES = 2048


def read_line(path: str) -> bytes:
    """The first 2,048 bytes of a file of one short line, such as `stat`, with three system calls. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _LINE_BYTES)
    finally:
        os.close(descriptor)


def read_begin(most: int, *path: str | os.PathLike[str]) -> bytes:
    """The first `most` bytes of a file. The command line and the environment of a process have any size: it says itself
    where in its memory they are. Raises OSError."""
    descriptor = os.open(os.path.join(*path), os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = [os.read(descriptor, min(most, _PART_BYTES))]
        while parts[-1] and (left := most - sum(map(len, parts))) > 0:
            parts.append(os.read(descriptor, min(left, _PART_BYTES)))
    finally:
        os.close(descriptor)
    return b"".join(parts)


class NotRegularError(OSError, ValueError):
    """There is a FIFO, a device or a directory instead of a file."""


def open_regular(path: str) -> int:
    """Open a regular file for reading, and nothing else: a FIFO would block, and lose what its reader reads; a device
    may change its state. Raises OSError.

    O_PATH touches neither, and what was opened so cannot be exchanged before it is opened for reading.
    """
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return open_again(place)
    finally:
        os.close(place)


def open_again(place: int) -> int:
    """Open what a descriptor with O_PATH leads to for reading, if that is a regular file. Raises OSError."""
    if not stat.S_ISREG(os.fstat(place).st_mode):
        raise NotRegularError(errno.EINVAL, "not a regular file")
    return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def list_processes(seconds: float = math.inf) -> Iterator[int]:
    """All processes, the newest first; those for which there is no time are left out."""
    end = time.monotonic() + seconds
    for pid in sorted((int(name) for name in os.listdir("/proc") if name.isdecimal()), reverse=True):
        if time.monotonic() > end:
            return
        yield pid


def read_name(pid: int) -> str:
    """The name of a process, of which the kernel keeps 15 bytes. Raises OSError if it has ended."""
    return read_line(f"/proc/{pid}/comm").decode(errors="replace").removesuffix("\n")


class KeptFiles:
    """Reads files of one short line again and again, through descriptors that stay open: in 40 % of the time of
    `read_line`. At most `most` files are open, and a sixteenth of those that this process may open: connections need
    the others. Beyond, the one read the longest ago is closed.

    A descriptor keeps neither a process nor its memory: reading it fails once the process or thread has ended.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[str, int] = {}  # the file that was read the longest ago is the first

    def read_line(self, path: str) -> bytes:
        """As `read_line`. Raises OSError."""
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            try:
                line = os.pread(descriptor, _LINE_BYTES, 0)
                self._open[path] = descriptor
                return line
            except OSError:  # the process has ended, and another one may have its number
                os.close(descriptor)
        descriptor = self._open_new(path)
        try:
            line = os.pread(descriptor, _LINE_BYTES, 0)
        except OSError:
            os.close(descriptor)
            raise
        self._open[path] = descriptor
        return line

    def _open_new(self, path: str) -> int:
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = self._most if allowed == resource.RLIM_INFINITY else min(self._most, allowed // 16)
        while len(self._open) >= max(1, most):
            os.close(self._open.pop(next(iter(self._open))))
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._open:
                raise
            self.close()  # they are needed elsewhere
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def forget(self, pid: int) -> None:
        """Close the files of a process that has ended, and of its threads."""
        folder = f"/proc/{pid}/"
        for path in [path for path in self._open if path.startswith(folder)]:
            os.close(self._open.pop(path))

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()


KEPT = KeptFiles(1536)
"""The files of processes and threads that are read at nearly every sample: 64 workers of 16 threads have 1,088, and
opening one takes four times as long as reading it."""


def read_text(*path: str | os.PathLike[str]) -> str:
    """The whole file as text. Raises OSError, or ValueError if the file is not UTF-8."""
    return read_file(*path).decode()


def read_status(name: str, *path: str | os.PathLike[str]) -> list[bytes] | None:
    """The words of the line `name` in the `status` file of a process or thread; None if it has ended or is hidden."""
    try:
        text = read_file(*path)
    except OSError:
        return None
    return text.partition(f"\n{name}:".encode())[2].partition(b"\n")[0].split()


def read_stat_fields(*path: str) -> list[bytes]:
    """The fields after the name in the `stat` file of a process or thread: the first is the third of
    proc_pid_stat(5). The name itself may hold spaces and parentheses. Raises OSError."""
    return read_line(os.path.join(*path)).rpartition(b")")[2].split()


TICKS = os.sysconf("SC_CLK_TCK")


class ProcessStat(NamedTuple):
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

    @property
    def has_ended(self) -> bool:
        """Whether its parent has not noticed its end yet."""
        return self.state in "ZX"

    @property
    def cpu_seconds(self) -> float:
        """User and system time since its start."""
        return (self.user + self.system) / TICKS


def parse_process_stat(line: bytes) -> ProcessStat:
    """Raises ValueError if the line is not as in proc_pid_stat(5)."""
    fields = line.rpartition(b")")[2].split()
    if len(fields) < 37:
        raise ValueError(f"a stat file has {len(fields)} fields after the name")
    return ProcessStat(fields[0].decode(), *[int(fields[at]) for at in (1, 11, 12, 13, 14, 17, 19, 21, 36)])


def read_process_stat(pid: int, thread: int | None = None) -> ProcessStat | None:
    """None if the process, or that thread of it, has ended, or is hidden; a zombie still has one."""
    try:
        return parse_process_stat(read_line(_stat_file(pid, thread)))
    except (OSError, ValueError):
        return None


def _stat_file(pid: int, thread: int | None) -> str:
    return f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat"


def read_start(pid: int) -> float | None:
    """When a process was started, in epoch seconds, to a hundredth; None if it has ended, or is hidden."""
    try:
        booted = read_file("/proc/stat").partition(b"\nbtime ")[2].partition(b"\n")[0]
        return int(booted) + parse_process_stat(read_line(f"/proc/{pid}/stat")).start / TICKS
    except (OSError, ValueError):
        return None


def read_state(pid: int, thread: int | None = None) -> bytes:
    """The state of a process, or of one of its threads, as the letter of proc_pid_stat(5); empty if it has ended."""
    try:
        return read_stat_fields(_stat_file(pid, thread))[0]
    except (OSError, IndexError):
        return b""


def has_ended(pid: int) -> bool:
    """Whether a process is gone. `hidepid` hides a living one from /proc, and not from getpgid(2)."""
    try:
        os.getpgid(pid)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


def socket_inode(target: str) -> int | None:
    """The inode in the target of a link in `/proc/PID/fd`; None if the descriptor is no socket."""
    return int(target[len("socket:[") : -1]) if target.startswith("socket:[") else None


WHO_MAY_KNOW = "give the exporter CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE, or the user who started uWSGI"
"""The advice for hidden descriptors, as the end of a sentence."""


_RIGHTS = 1 << 19 | 1 << 2  # CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH of linux/capability.h


def may_know_all() -> bool:
    """Whether this process has these rights."""
    words = read_status("CapEff", "/proc/self/status")
    return int(b"".join(words or [b"0"]), 16) & _RIGHTS == _RIGHTS


def read_socket_inodes(pid: int) -> frozenset[int] | None:
    """The inodes of a process's open sockets; None if this user may not read them or the process has ended.

    The only kernel fact, besides waits and unique memory, that needs a privilege. The reader must be the process's own
    user, or have CAP_DAC_READ_SEARCH (to list `/proc/<pid>/fd`) and CAP_SYS_PTRACE (to read its links). If uWSGI starts
    as root with the option `uid`, its files in procfs continue to belong to root (setuid makes a process not dumpable,
    see proc(5)), so even its own user may not read them. Costs a system call per descriptor: cache the result. Only the
    lowest descriptors are read: a server opens its listening sockets first.
    """
    try:
        targets = [target for _, target in list_descriptors(pid, MOST_DESCRIPTORS)]
    except OSError:
        return None
    return frozenset(inode for target in targets if (inode := socket_inode(target)))


def list_descriptors(pid: int, most: int) -> Iterator[tuple[int, str]]:
    """The open descriptors of a process, at most so many, and what each is open on. Raises OSError if this user may not
    read them, or the process has ended."""
    folder = f"/proc/{pid}/fd"
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, most)]
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:  # closed in the meantime
            continue
        yield int(name), target


MOST_DESCRIPTORS = 4096
"""How many descriptors of a process are counted one by one, 0.7 us each."""


def count_descriptors(pid: int) -> int | None:
    """How many descriptors a process has open; None if they are more than can be counted. Raises OSError.

    Since Linux 6.2 that is the size of `/proc/PID/fd`, which every user may read, in 6 us (proc_pid_fd(5)). Before, and
    on emulated kernels, the size is 0, and each has to be listed, which needs the privilege of `read_socket_inodes`.
    """
    folder = f"/proc/{pid}/fd"
    if size := os.stat(folder).st_size:
        return size
    with os.scandir(folder) as entries:
        number = sum(1 for _ in islice(entries, MOST_DESCRIPTORS + 1))
    return number if number <= MOST_DESCRIPTORS else None


_LIMIT = re.compile(r"^Max (open files|address space|processes) +(\d+)", re.MULTILINE)


def read_limits(pid: int) -> dict[str, int]:
    """The soft limits of a process (setrlimit(2)) for open files, address space and processes; without those that are
    unlimited. Every user may read them. Raises OSError."""
    return {name: int(number) for name, number in _LIMIT.findall(read_text(f"/proc/{pid}/limits"))}


def ask_in_thread(question: Callable[[], T], name: str) -> tuple[threading.Thread, Future[T]]:
    """Start a thread of this name that asks a question; the future has its result, or error. Raises OSError if there
    can be no further thread."""
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            answer.set_exception(error)

    thread = threading.Thread(target=ask, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # too many threads, or too little memory
        raise OSError(str(error)) from None
    return thread, answer
