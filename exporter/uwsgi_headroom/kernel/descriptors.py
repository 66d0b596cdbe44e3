"""What a process holds open: the one fact here that any user may not know.

It takes the process's own user, or CAP_DAC_READ_SEARCH (to list `/proc/<pid>/fd`) together with
CAP_SYS_PTRACE (to read its links). And uWSGI started as root with the option `uid` belongs to root in
procfs ever after (setuid makes a process not dumpable, see proc(5)): then its own user may not know either.
"""

from __future__ import annotations

import os

WHO_MAY_KNOW = "give the exporter CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE, or the user who started uWSGI"
"""What to do about it, as the end of a sentence."""


def read_socket_inodes(pid: int) -> frozenset[int] | None:
    """The inodes of the sockets a process holds; None if this user may not know or the process is gone.

    Costs a system call per descriptor: keep the answer.
    """
    inodes = []
    folder = f"/proc/{pid}/fd"
    try:
        for descriptor in os.listdir(folder):
            try:
                target = os.readlink(f"{folder}/{descriptor}")
            except FileNotFoundError:  # closed meanwhile
                continue
            if target.startswith("socket:["):
                inodes.append(int(target[len("socket:[") : -1]))
    except OSError:
        return None
    return frozenset(inodes)
