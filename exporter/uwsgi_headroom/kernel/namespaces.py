"""Reads the namespaces of a process without privileges.

The links in `/proc/<pid>/ns` need the permission to trace the process, which an exporter with its own user lacks. The
functions here need no permission.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from uwsgi_headroom.kernel import procfs


def read_pid_numbers(pid: int | Literal["self"], *, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The pids of a process, from the PID namespace of `proc` down to the process's own (NSpid in proc(5)).

    A single pid means that the process is in the namespace of `proc`. Empty if the process does not exist or is hidden
    (`hidepid`), or if the kernel is older than 4.1.
    """
    try:
        status = procfs.read_file(proc, str(pid), "status")
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
