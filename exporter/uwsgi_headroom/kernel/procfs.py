"""Reads small files of `/proc` and `/sys`; each reading of a server needs dozens.

Reads the open descriptors of a process, the only kernel fact here that needs a privilege.

The reader must be the process's own user, or have CAP_DAC_READ_SEARCH (to list `/proc/<pid>/fd`) and CAP_SYS_PTRACE
(to read its links). If uWSGI starts as root with the option `uid`, its files in procfs continue to belong to root
(setuid makes a process not dumpable, see proc(5)), so even its own user may not read them.

Reads the namespaces of a process without privileges.

The links in `/proc/<pid>/ns` need the permission to trace the process, which an exporter with its own user lacks. The
functions here need no permission.

Reads the mounts of this process, and again only if they have changed.

A host of containers has thousands of mounts, and the kernel takes 2 ms per thousand to list them. poll(2) on the open
file reports each change once (proc_pid_mountinfo(5)).

Reads files that may never answer, without waiting for them.

The files of a watched process may be on a file system whose server does not answer: a network one, or FUSE with a
server that the process itself has written. Nothing can end such a read, so it runs in a thread of its own. If it takes
too long, the thread is left alone, and nothing else is read until it ends, nor for a minute.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar


def read_file(*path: str | os.PathLike[str]) -> bytes:
    """The whole file, read without a buffer, in half the time of `Path.read_bytes`. Raises OSError."""
    with open(os.path.join(*path), "rb", buffering=0) as file:
        return file.read()


def read_line(path: str) -> bytes:
    """The first 512 bytes of a file that has one short line. Takes half the time of `read_file`. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 512)
    finally:
        os.close(descriptor)


def read_text(*path: str | os.PathLike[str]) -> str:
    """The whole file as text. Raises OSError, or ValueError if the file is not UTF-8."""
    return read_file(*path).decode()


def read_stat_fields(*path: str) -> list[bytes]:
    """The fields after the name in the `stat` file of a process or thread: the first is the third of
    proc_pid_stat(5). The name itself may hold spaces and parentheses. Raises OSError."""
    return read_file(*path).rpartition(b")")[2].split()


WHO_MAY_KNOW = "give the exporter CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE, or the user who started uWSGI"
"""The advice for hidden descriptors, as the end of a sentence."""


def read_socket_inodes(pid: int) -> frozenset[int] | None:
    """The inodes of a process's open sockets; None if this user may not read them or the process has ended.

    Costs a system call per descriptor: cache the result.
    """
    inodes = []
    folder = f"/proc/{pid}/fd"
    try:
        for descriptor in os.listdir(folder):
            try:
                target = os.readlink(f"{folder}/{descriptor}")
            except FileNotFoundError:  # closed in the meantime
                continue
            if target.startswith("socket:["):
                inodes.append(int(target[len("socket:[") : -1]))
    except OSError:
        return None
    return frozenset(inodes)


def read_pid_numbers(pid: int | Literal["self"], *, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The pids of a process, from the PID namespace of `proc` down to the process's own (NSpid in proc(5)).

    A single pid means that the process is in the namespace of `proc`. Empty if the process does not exist or is hidden
    (`hidepid`), or if the kernel is older than 4.1.
    """
    try:
        status = read_file(proc, str(pid), "status")
    except OSError:
        return ()
    _, _, after = status.partition(b"\nNSpid:")
    return tuple(int(number) for number in after.split(b"\n", 1)[0].split())


def shares_network_namespace(pid: int, *, proc: Path = Path("/proc")) -> bool | None:
    """Whether a process shares this process's network namespace; None if that is not visible.

    Each network namespace has its own `net` files in procfs, with unique inode numbers (proc_net.c, proc_alloc_inum).
    So equal numbers mean one namespace, and stat(2) needs no privilege.
    """
    try:
        theirs = os.stat(proc / str(pid) / "net" / "dev")
        ours = os.stat(proc / "self" / "net" / "dev")
    except OSError:
        return None
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


LONGEST_SECONDS = 60.0
"""The longest age of the list: an emulated kernel may not report changes."""


class Mounts:
    """The text of `/proc/self/mountinfo`. A forked child, which may be in another mount namespace, reads its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._file: BinaryIO | None = None
        self._changes = select.poll()
        self._process = 0
        self._text = ""
        self._read_at = float("-inf")

    def read(self) -> str:
        """The list as of now. Raises OSError."""
        if self._file is None or self._process != os.getpid():
            self._open()
        now = self._clock()
        if self._changes.poll(0) or now - self._read_at >= LONGEST_SECONDS:
            assert self._file is not None
            self._file.seek(0)
            self._text, self._read_at = self._file.read().decode(errors="surrogateescape"), now
        return self._text

    def _open(self) -> None:
        self._file = open("/proc/self/mountinfo", "rb", buffering=0)  # noqa: SIM115 - it stays open
        self._process, self._read_at = os.getpid(), float("-inf")
        self._changes = select.poll()
        self._changes.register(self._file, select.POLLERR | select.POLLPRI)


OUR_MOUNTS = Mounts()
"""Those of the exporter: all servers share them."""


T = TypeVar("T")

MOST_SECONDS = 0.5
"""How long to wait. Files are read in a few milliseconds; a busy machine takes longer."""

PAUSE_SECONDS = 60.0
"""How long to read nothing after that: a server of files may be slow as well as silent."""


class Patience:
    """Asks questions about the files of one process; at most one thread is left waiting."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stuck: threading.Thread | None = None
        self._not_before = float("-inf")

    def ask(self, question: Callable[[], T], seconds: float = MOST_SECONDS) -> T:
        """The result of `question`. Raises whatever it raises, or TimeoutError if it takes longer than `seconds` or an
        earlier one has not ended."""
        if self._clock() < self._not_before or (self._stuck is not None and self._stuck.is_alive()):
            raise TimeoutError("an earlier file was not read in time")
        answer: Future[T] = Future()

        def ask() -> None:
            try:
                answer.set_result(question())
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                answer.set_exception(error)

        thread = threading.Thread(target=ask, name="reading a file", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # too many threads, or too little memory
            raise OSError(str(error)) from None
        try:
            return answer.result(max(0.0, seconds))
        except FutureTimeoutError:
            self._stuck, self._not_before = thread, self._clock() + PAUSE_SECONDS
            raise TimeoutError("a file was not read in time") from None
