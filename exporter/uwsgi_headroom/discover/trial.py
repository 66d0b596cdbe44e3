"""Tries whether a uWSGI could bind a stats socket in a directory, and whether the exporter could read it.

A stats address that cannot be bound ends uWSGI at its next reload. So a child process takes all ids of the master,
before it opens anything of that user's, and binds a socket of another name *beside* the proposed one, never at it:
uWSGI unlinks whatever lies there, and so would a trial. A second child, with the exporter's ids, asks the kernel
whether it could connect.

Root lends no rights: no child keeps an id or a descriptor of root's, none changes a mode or an owner, and a child of
root itself looks at nothing that another user could exchange. It takes root, or to be uWSGI's own user.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from uwsgi_headroom.kernel.as_user import Ids, ask_as

MODE = 0o660
"""The mode of the stats socket that the proposed lines lead to."""

LONGEST_PATH = 102
"""uWSGI refuses a longer path for a UNIX socket (tried: 102 bytes bind, 103 do not)."""


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
