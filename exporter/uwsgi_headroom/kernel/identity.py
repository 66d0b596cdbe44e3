"""Which server this is: its host, its master's age and directory, and the emperor that began it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from uwsgi_headroom.kernel import procfs


@dataclass(frozen=True, slots=True)
class Identity:
    """A proven master. host: the name of this host; started: when the process began, in epoch seconds, which a reload
    does not change; working_directory: where it is now, which needs the permission to trace the process (see
    `descriptors`); emperor_pid: its parent's pid, where that is a uWSGI. None: not visible, or there is none.
    """

    host: str
    started: float | None
    working_directory: str | None
    emperor_pid: int | None


def read_identity(master_pid: int, *, proc: Path = Path("/proc")) -> Identity:
    """The identity of the uWSGI whose proven master is `master_pid`. Never raises."""
    return Identity(
        host=os.uname().nodename,
        started=_read_start(master_pid),
        working_directory=read_working_directory(master_pid, proc=proc),
        emperor_pid=_find_emperor(master_pid, proc),
    )


def _read_start(pid: int) -> float | None:
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def read_working_directory(pid: int, *, proc: Path = Path("/proc")) -> str | None:
    """Where a process is now; None where this user may not know."""
    try:
        return os.readlink(proc / str(pid) / "cwd")
    except OSError:
        return None


def _find_emperor(pid: int, proc: Path) -> int | None:
    """A uWSGI whose parent is another uWSGI is its vassal: nothing else of uWSGI begins a master."""
    try:
        parent = int(procfs.read_stat_fields(str(proc / str(pid) / "stat"))[1])
        name = procfs.read_text(proc, str(parent), "comm")
    except (OSError, ValueError, IndexError):
        return None
    return parent if "uwsgi" in name else None
