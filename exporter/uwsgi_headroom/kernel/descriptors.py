"""Reads the open descriptors of a process, the only kernel fact here that needs a privilege.

The reader must be the process's own user, or have CAP_DAC_READ_SEARCH (to list `/proc/<pid>/fd`) and CAP_SYS_PTRACE
(to read its links). If uWSGI starts as root with the option `uid`, its files in procfs continue to belong to root
(setuid makes a process not dumpable, see proc(5)), so even its own user may not read them.
"""

from __future__ import annotations

import os

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
