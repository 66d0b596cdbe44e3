"""Which namespaces a process lives in, as far as any user may know.

The links in `/proc/<pid>/ns` need the permission to trace the process, which an exporter with a user of its
own lacks. What is here needs none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from uwsgi_headroom.kernel import procfs


def read_pid_numbers(pid: int | Literal["self"], *, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The pids a process has, from the PID namespace `proc` was mounted in down to its own (NSpid in
    proc(5)).

    One number: it lives in the namespace of `proc`. None at all: there is no such process, or it is hidden
    (`hidepid`), or the kernel is older than 4.1.
    """
    try:
        status = procfs.read_file(proc, str(pid), "status")
    except OSError:
        return ()
    _, _, after = status.partition(b"\nNSpid:")
    return tuple(int(number) for number in after.split(b"\n", 1)[0].split())


def shares_network_namespace(pid: int, *, proc: Path = Path("/proc")) -> bool | None:
    """Whether a process shares this one's network namespace; None if that cannot be seen.

    Each network namespace has its own `net` files in procfs and no two files there have one inode number
    (proc_net.c, proc_alloc_inum), so one number means one namespace; and stat needs no privilege.
    """
    try:
        theirs = os.stat(proc / str(pid) / "net" / "dev")
        ours = os.stat(proc / "self" / "net" / "dev")
    except OSError:
        return None
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)
