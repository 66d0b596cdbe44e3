"""Reads the identity of a server: its host, the start and directory of its master, its emperor and systemd unit."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import psutil

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.namespaces import read_pid_numbers


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a proven master. A field is None if it is hidden or does not exist.

    host: the name of this host.
    started: epoch seconds of the start of the process, which a reload does not change.
    working_directory: the current one; it needs the permission to trace the process (`procfs.read_socket_inodes`).
    emperor_pid: the PID of the parent in its own PID namespace, as in its stats, if the parent is a uWSGI.
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
    """The current working directory of a process; None if this user may not read it."""
    try:
        return os.readlink(proc / str(pid) / "cwd")
    except OSError:
        return None


def _find_emperor(pid: int, proc: Path) -> int | None:
    """The PID of the parent if it is a uWSGI: only an emperor starts another master."""
    try:
        parent = int(procfs.read_stat_fields(str(proc / str(pid) / "stat"))[1])
        name = procfs.read_text(proc, str(parent), "comm")
    except (OSError, ValueError, IndexError):
        return None
    if "uwsgi" not in name:
        return None
    return next(reversed(read_pid_numbers(parent, proc=proc)), parent)


_UNIT = re.compile(r"^[0-9]+:(?:name=systemd)?:.*/([\w@.\\:-]+\.service)(?:/|$)", re.MULTILINE | re.ASCII)


def find_systemd_unit(pid: int, root: Path = Path("/")) -> str | None:
    """The innermost service of a process; None if the process is in no service, has ended, or is hidden.

    Its cgroup says so: `/system.slice/uwsgi.service` is `uwsgi.service` (systemd.unit(5), cgroups(7)).
    """
    try:
        found = _UNIT.search(procfs.read_text(root, f"proc/{pid}/cgroup"))
    except (OSError, ValueError):
        return None
    return found[1] if found else None
