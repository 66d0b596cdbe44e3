"""Tries whether a uWSGI could bind a stats socket in a directory, and whether the exporter could read it.

A stats address that cannot be bound ends uWSGI at its next reload, so nothing is recommended that was not tried. A
child process takes the place of the master: its mounts, its root directory, its user and groups. It binds a socket of
another name *beside* the proposed one, never at it: uWSGI unlinks whatever lies there, and so would a trial. A second
child then connects to that socket with the exporter's user and groups.

It takes root, or to be uWSGI's own user with the same mounts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from uwsgi_headroom.discover.launch import Ids

MODE = 0o660
"""The mode of the stats socket that the proposed lines lead to."""

LONGEST_PATH = 102
"""uWSGI refuses a longer path for a UNIX socket (tried: 102 bytes bind, 103 do not)."""

_SECONDS = 5.0
_CLONE_NEWNS = 0x00020000  # linux/sched.h
_libc = ctypes.CDLL(None, use_errno=True)  # os.setns exists from Python 3.12 on


class TrialError(Exception):
    """The trial failed; the message completes "tried, and ...". reads: whether only the exporter cannot connect."""

    def __init__(self, message: str, *, reads: bool = False) -> None:
        super().__init__(message)
        self.reads = reads


def try_directory(pid: int, master: Ids, directory: Path, name: str, reader: Ids) -> None:
    """Try to bind `directory`/`name` as the master with this PID and these ids, and to connect to it as `reader`.

    Raises TrialError with the reason why that fails.
    """
    trial = f".uwsgi-headroom-{os.getpid()}"
    with _child(lambda ready: _bind_as(pid, master, directory, name, trial, ready)) as said:
        if said:
            raise TrialError(said)
        with _child(lambda _ready: _connect_as(reader, directory / trial)) as said_of_reader:
            if said_of_reader:
                raise TrialError(said_of_reader, reads=True)


def has_access(path: Path, user: Ids, mode: int) -> bool:
    """Whether a user may read a file (os.R_OK) or connect to a socket (os.W_OK), by the modes of it and its
    directories; nothing is opened. Needs root, or to be that user."""

    def ask(_ready: object) -> str:
        _become(user)
        return "" if os.access(path, mode) else "no"

    with _child(ask) as said:
        return not said


@contextmanager
def trial_directory(parent: Path, master: Ids) -> Iterator[Path]:
    """Make a directory in `parent` as the proposed commands would, owned by the master, for the time of the trial.

    Raises OSError. An attacker who may write in `parent` gains nothing: the owner is changed through a descriptor of
    the directory that was just made.
    """
    path = parent / f".uwsgi-headroom-{os.getpid()}-{time.monotonic_ns()}"
    path.mkdir(mode=0o700)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_uid != os.geteuid():
                raise PermissionError(f"{path} was replaced")
            if os.geteuid() == 0:
                os.fchown(descriptor, master.uid, master.gid)
            os.fchmod(descriptor, 0o2750)
        finally:
            os.close(descriptor)
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.rmdir()


def _bind_as(pid: int, ids: Ids, directory: Path, name: str, trial: str, ready: Callable[[], None]) -> str:
    sockets = _read_sockets(pid)  # before /proc may become another
    _enter_files_of(pid)
    _become(ids)
    try:
        os.chdir(directory)
    except OSError as error:
        return f"uWSGI's user cannot enter it: {error.strerror}"
    if taken := _what_lies_at(directory / name, sockets):
        return taken
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(trial)  # relative, because the longest path of a UNIX socket is 107 bytes
    except OSError as error:
        return f"uWSGI's user cannot bind a socket in it: {error.strerror}"
    try:
        os.chmod(trial, MODE)
        listener.listen(1)
        ready()
    finally:
        os.unlink(trial)
    return ""


def check_path_is_free(path: Path, pid: int) -> None:
    """Raise TrialError if something lies at a path that uWSGI would delete or take over. pid: of a process in the same
    network namespace."""
    if taken := _what_lies_at(path, _read_sockets(pid)):
        raise TrialError(taken)


def _read_sockets(pid: int) -> str:
    return Path(f"/proc/{pid}/net/unix").read_text(errors="replace")


def _what_lies_at(path: Path, sockets: str) -> str:
    """Why a path is not free; empty if it is free. sockets: /proc/net/unix.

    uWSGI deletes a file there, and takes over a socket there, without a word. A socket that nobody listens on is free.
    """
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if not stat.S_ISSOCK(mode):
        return f"{path} exists and is no socket: uWSGI would delete it"
    if any(line.endswith(f" {path}") for line in sockets.splitlines()):
        return f"another program listens on {path}: uWSGI would take its place"
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    except ConnectionRefusedError:
        return ""
    except OSError as error:
        return f"{path} exists, and whether somebody listens on it is not visible: {error.strerror}"
    return f"another program listens on {path}: uWSGI would take its place"


def _connect_as(ids: Ids, path: Path) -> str:
    _become(ids)
    try:
        os.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path.name)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _enter_files_of(pid: int) -> None:
    """Take over the mounts and the root directory of a process, if they are others. Raises OSError."""
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"):
        namespace = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        if _libc.setns(namespace, _CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "the mounts of the process cannot be entered")
    if not os.path.samestat(os.fstat(root), os.stat("/")):
        os.fchdir(root)
        os.chroot(".")


def _become(ids: Ids) -> None:
    """Take over user and groups. Raises PermissionError if this user may not, and they are another's."""
    if os.geteuid() != 0:
        if os.geteuid() != ids.uid:
            raise PermissionError(0, "only root, or uWSGI's own user, can try it")
        return
    os.setgroups(ids.groups)
    os.setresgid(ids.gid, ids.gid, ids.gid)
    os.setresuid(ids.uid, ids.uid, ids.uid)


@contextmanager
def _child(work: Callable[[Callable[[], None]], str]) -> Iterator[str]:
    """Run `work` in a child process, and yield what it says: an empty text if all is well.

    `work` may call its argument once it is ready, which says so and waits until the block ends. The child makes system
    calls only, because other threads of this process may hold locks.
    """
    said_here, said_there = os.pipe()
    leave_here, leave_there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(leave_there)

            def ready() -> None:
                os.write(said_there, b"\n")
                os.read(leave_here, 1)  # returns when the parent closes its end, or has ended

            try:
                text = work(ready)
            except OSError as error:
                text = error.strerror or str(error)
            os.write(said_there, text.encode(errors="backslashreplace") + b"\n")
        finally:
            os._exit(0)
    os.close(said_there)
    os.close(leave_here)
    try:
        yield _read_line(said_here)
    finally:
        os.close(leave_there)
        os.close(said_here)
        _reap(child)


def _read_line(descriptor: int) -> str:
    """Read the first line that a child writes; a sentence if it writes none in time."""
    said, end = b"", time.monotonic() + _SECONDS
    while not said.endswith(b"\n"):
        if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
            return f"the directory did not answer within {_SECONDS:g} s"
        part = os.read(descriptor, 4096)
        if not part:
            return "the trial ended early"
        said += part
    return said.decode().split("\n", 1)[0]


def _reap(child: int) -> None:
    """Wait for a child's end; end it if it hangs, for example in a directory on a server that does not answer."""
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    if not os.waitpid(child, os.WNOHANG)[0]:
        return  # in the kernel; init takes it when this process ends
