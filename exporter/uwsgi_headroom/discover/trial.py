"""Tries whether a uWSGI could bind a stats socket in a directory, and whether the exporter could read it.

A stats address that cannot be bound ends uWSGI at its next reload. So a child process takes all ids of the master,
before it opens anything of that user's, and binds a socket of another name *beside* the proposed one, never at it:
uWSGI unlinks whatever lies there, and so would a trial. A second child, with the exporter's ids, asks the kernel
whether it could connect.

Root lends no rights: no child keeps an id or a descriptor of root's, none changes a mode or an owner, and a child of
root itself looks at nothing that another user could exchange. It takes root, or to be uWSGI's own user.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from uwsgi_headroom.discover.launch import Ids

MODE = 0o660
"""The mode of the stats socket that the proposed lines lead to."""

LONGEST_PATH = 102
"""uWSGI refuses a longer path for a UNIX socket (tried: 102 bytes bind, 103 do not)."""

_SECONDS = 2.0
_MOST_BYTES = 4096  # a pipe takes as many at once: pipe(7), PIPE_BUF


class TrialError(Exception):
    """The trial failed; the message completes "tried, and ...". reads: whether only the exporter cannot connect."""

    def __init__(self, message: str, *, reads: bool = False) -> None:
        super().__init__(message)
        self.reads = reads


def try_directory(master: Ids, directory: Path, name: str, reader: Ids) -> None:
    """Try to bind a socket in a directory with the ids of a master, and whether `reader` could connect to it. name:
    that of the proposed socket, which must be free. Raises TrialError with the reason why that fails."""
    if master.uid == 0 and not is_roots(directory):
        raise TrialError("uWSGI runs as root, and others than root may write in it or above it, or a link leads to it")
    trial = f".uwsgi-headroom-{os.getpid()}"
    if said := ask_as(master, lambda: _bind(directory, name, trial)):
        raise TrialError(said)
    may_read = has_access(directory / trial, reader, os.W_OK)
    ask_as(master, lambda: _remove(directory / trial))
    if not may_read:
        raise TrialError("Permission denied", reads=True)


def has_access(path: Path, user: Ids, mode: int) -> bool:
    """Whether a user may read a file (os.R_OK), connect to a socket (os.W_OK), or enter a directory (os.X_OK), by the
    modes of it and the directories above it; nothing is opened. Root always may. Needs root, or to be that user."""
    return user.uid == 0 or ask_as(user, lambda: "" if os.access(path, mode) else "no") == ""


def is_roots(path: Path) -> bool:
    """Whether only root may change what lies at a path, or what lies above it. Looks at nothing in a directory in which
    another user may write. What does not exist yet, root will make."""
    for each in (*reversed(path.parents), path):
        try:
            found = os.lstat(each)
        except FileNotFoundError:
            return True
        if found.st_uid != 0 or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
            return False
    return True


def _bind(directory: Path, name: str, trial: str) -> str:
    os.umask(0o777 & ~MODE)
    try:
        os.chdir(directory)
    except OSError as error:
        return f"uWSGI's user cannot enter it: {error.strerror}"
    if taken := _what_lies_at(directory / name):
        return taken
    try:
        socket.socket(socket.AF_UNIX).bind(trial)  # relative, because the longest path of a UNIX socket is 107 bytes
    except OSError as error:
        return f"uWSGI's user cannot bind a socket in it: {error.strerror}"
    return ""


def _remove(path: Path) -> str:
    os.unlink(path)
    return ""


def _what_lies_at(path: Path) -> str:
    """Why a path is not free; empty if it is free.

    uWSGI deletes a file there, and takes over a socket there, without a word. A socket that nobody listens on is free.
    """
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    if not stat.S_ISSOCK(mode):
        return f"{path} exists and is no socket: uWSGI would delete it"
    with open("/proc/net/unix", errors="replace") as sockets:
        if any(line.endswith(f" {path}\n") for line in sockets):
            return f"another program listens on {path}: uWSGI would take its place"
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    except ConnectionRefusedError:
        return ""
    except OSError as error:
        return f"{path} exists, and whether somebody listens on it is not visible: {error.strerror}"
    return f"another program listens on {path}: uWSGI would take its place"


def ask_as(ids: Ids, question: Callable[[], str]) -> str:
    """What a question says in a child process with these ids, or why it says nothing.

    The child makes system calls only, because other threads of this process may hold locks. It runs no other program:
    so the kernel lets its user neither trace it nor read its memory (prctl(2), PR_SET_DUMPABLE).
    """
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                _become(ids, there)
                text = question()
            except OSError as error:
                text = error.strerror or str(error)
            os.write(there, text.encode(errors="backslashreplace")[: _MOST_BYTES - 1] + b"\n")
        finally:
            os._exit(0)
    os.close(there)
    try:
        if not select.select([here], [], [], _SECONDS)[0]:
            return f"the directory did not answer within {_SECONDS:g} s"
        said, end, _ = os.read(here, _MOST_BYTES).decode().partition("\n")
        return said if end else "the trial ended early"
    finally:
        os.close(here)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _become(ids: Ids, kept: int) -> None:
    """Close all descriptors but one, and take over user and groups. Raises PermissionError if this user may not, and
    they are another's."""
    for descriptor in {*map(int, os.listdir("/proc/self/fd"))} - {kept}:
        with contextlib.suppress(OSError):  # the one of that list
            os.close(descriptor)
    if os.geteuid() != 0:
        if os.geteuid() != ids.uid:
            raise PermissionError(0, "only root, or uWSGI's own user, can try it")
        return
    os.setgroups(ids.groups)
    os.setresgid(ids.gid, ids.gid, ids.gid)
    os.setresuid(ids.uid, ids.uid, ids.uid)
