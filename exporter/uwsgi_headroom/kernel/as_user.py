"""Asks the kernel what a user may do: in a child process with all ids of that user, which is thrown away."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable

from msgspec import Struct

from uwsgi_headroom.kernel.namespaces import CLONE_NEWNS, enter

SECONDS, _LONGEST = 2.0, 4
_MOST_BYTES = 4096  # a pipe takes as many at once: pipe(7), PIPE_BUF


class Ids(Struct, frozen=True):
    """What the kernel checks when a process opens a file: user, group and supplementary groups."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def ask_as(ids: Ids, question: Callable[[], str], seconds: float = SECONDS, mounts_of: int = 0) -> str:
    """What a question says in a child process with these ids, or why it says nothing. mounts_of: the process whose
    mounts it sees, which takes root; 0: its own.

    The child makes system calls only, because other threads of this process may hold locks. It runs no other program:
    so the kernel lets its user neither trace it nor read its memory (prctl(2), PR_SET_DUMPABLE).
    """
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                _become(ids, there, mounts_of)
                text = question()
            except OSError as error:
                text = error.strerror or str(error)
            os.write(there, text.encode(errors="backslashreplace")[: _MOST_BYTES - 1] + b"\n")
        finally:
            os._exit(0)
    os.close(there)
    try:
        if not select.select([here], [], [], seconds)[0]:
            return f"the directory did not answer within {seconds:g} s"
        said, end, _ = os.read(here, _MOST_BYTES).decode().partition("\n")
        return said if end else "the trial ended early"
    finally:
        os.close(here)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _become(ids: Ids, kept: int, mounts_of: int) -> None:
    """Close all descriptors but one, enter the mounts, and take over user and groups. Raises PermissionError if this
    user may not, and they are another's."""
    signal.alarm(_LONGEST)  # its parent may be killed meanwhile
    for descriptor in {*map(int, os.listdir("/proc/self/fd"))} - {kept}:
        with contextlib.suppress(OSError):  # the one of that list
            os.close(descriptor)
    if os.geteuid() != 0:
        if os.geteuid() != ids.uid:
            raise PermissionError(0, "only root, or uWSGI's own user, can try it")
        return
    if mounts_of:
        enter(mounts_of, "mnt", CLONE_NEWNS)
    os.setgroups(ids.groups)
    os.setresgid(ids.gid, ids.gid, ids.gid)
    os.setresuid(ids.uid, ids.uid, ids.uid)
