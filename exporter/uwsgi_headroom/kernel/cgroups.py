"""Finds the cgroups of a process for one controller: a directory for each level, in cgroup version 1 or 2.

The kernel enforces limits at every level of the cgroup tree, so each must be read. On a hybrid host a controller
belongs to one of the two versions, as `/proc/<pid>/cgroup` shows; see cgroups(7) and the kernel's cgroup-v2.rst.

Inside a container, nothing above its own cgroup is visible, so a limit of the pod is missed. The cgroup of another
container may not be mounted here; its limits are then unknown, which is not the same as none.
"""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import BinaryIO, Literal

from msgspec import Struct

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.processes import MOST_CHILDREN, WorkerProcess, list_children
from uwsgi_headroom.surroundings import Tasks

ROOT = Path("/")
"""The parent directory of `/proc` and `/sys`."""

MOST_LEVELS = 64
"""The limits of each are read. A user with a cgroup of his own can nest thousands."""


class Cgroups(Struct, frozen=True):
    """The cgroups of one process for one controller.

    version: the cgroup version that the controller belongs to, 0 for none.
    folders: from the top of the mount down to the process's own cgroup.
    names: of the same cgroups, as the kernel has them: `/` is the top of this process's cgroup namespace, such as its
        container.
    """

    version: Literal[0, 1, 2]
    folders: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def find_cgroups(pid: int, controller: str, root: Path) -> Cgroups:
    """Find the cgroups of a process for a controller such as `cpu`.

    Raises `OSError` if the process has ended, or its cgroup is not mounted here or too deep.
    """
    version, path = _cgroup(procfs.read_text(root, f"proc/{pid}/cgroup"), controller)
    if version == 0:
        return Cgroups(0)
    mountinfo = OUR_MOUNTS.read() if root == ROOT else procfs.read_text(root, "proc/self/mountinfo")
    for mount_root, mount_point in _mounts(mountinfo, version, controller):
        if (below := _below(path, mount_root)) is None:
            continue
        tops = os.path.join(root, mount_point.lstrip("/")), mount_root
        parts = [part for part in below.split("/") if part]
        if len(parts) > MOST_LEVELS:
            raise OSError(f"the cgroup of process {pid} has too many levels")
        folders, names = (tuple(accumulate(parts, os.path.join, initial=top)) for top in tops)
        if os.path.exists(os.path.join(folders[-1], "cgroup.procs")):  # otherwise another mount hides it
            return Cgroups(version, folders, names)
    raise FileNotFoundError(f"the cgroup of process {pid} is not mounted here")


def read_task_limit(pid: int, workers: Mapping[int, WorkerProcess], *, root: Path = ROOT) -> Tasks | None:
    """The limit of processes and threads (pids.max, in both versions, or of the user) that leaves a process the fewest;
    None without one, or if it is not known. workers: whose zombies are counted if half of it is in use.

    The limit of the user (RLIMIT_NPROC) does not bind root. As in use count only the workers' threads and children: to
    know all of the user's takes a look at each process of the host.
    """
    limits = []
    try:
        for folder in find_cgroups(pid, "pids", root).folders:
            with suppress(FileNotFoundError):  # the root cgroup, or the controller is not enabled at this level
                most = procfs.read_text(folder, "pids.max").strip()
                if most not in ("max", "0"):
                    limits.append(Tasks(int(procfs.read_text(folder, "pids.current")), int(most)))
        for worker in list(workers)[:1]:
            of_user = os.stat(f"/proc/{worker}").st_uid and procfs.read_limits(worker).get("processes")
            used = sum(each.threads or 1 for each in workers.values())
            if of_user and used + MOST_CHILDREN >= of_user / 2:
                limits.append(Tasks(used + len(_list_children(workers)), of_user, limit="ulimit -u"))
    except (OSError, ValueError):
        return None
    tasks = min(limits, key=lambda limit: limit.most - limit.used, default=None)
    if tasks is None or tasks.used < tasks.most / 2:
        return tasks
    stats = map(procfs.read_process_stat, _list_children(workers))
    return tasks._replace(zombies=sum(stat is not None and stat.has_ended for stat in stats))


def _list_children(workers: Iterable[int]) -> list[int]:
    return list(islice((child for worker in workers for child in list_children(worker)), MOST_CHILDREN))


def explain_hidden(pid: int) -> str | None:
    """Why the limits of a process are unknown, and what to do; None if its cgroups are visible."""
    try:
        for controller in ("cpu", "memory"):
            find_cgroups(pid, controller, ROOT)
    except FileNotFoundError:
        return (
            "uWSGI's cgroup is not visible to the exporter: run it on the host, or share the host's cgroup namespace "
            "and mount the host's /sys/fs/cgroup into its container, read-only"
        )
    except (OSError, ValueError):
        return "uWSGI's cgroup cannot be read: the process has ended, or /proc hides it"
    return None


def _cgroup(lines: str, controller: str) -> tuple[Literal[0, 1, 2], str]:
    """The controller's cgroup version (0 for none), and the path of the process in its hierarchy."""
    unified: str | None = None
    for line in lines.splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return 1, path
        if not controllers:
            unified = path
    return (0, "") if unified is None else (2, unified)


def _mounts(mountinfo: str, version: Literal[1, 2], controller: str) -> Iterator[tuple[str, str]]:
    """For each mount of the hierarchy, the cgroup at its root and the mount point (proc(5))."""
    for line in mountinfo.splitlines():
        if " - cgroup" not in line:  # a host of containers has thousands of other mounts
            continue
        mount, _, filesystem = line.partition(" - ")
        kind, _, options = filesystem.split(" ", 2)
        of_version_1 = kind == "cgroup" and controller in options.split(",")
        if (version == 2 and kind == "cgroup2") or (version == 1 and of_version_1):
            _, _, _, mount_root, mount_point, *_ = mount.split(" ")
            yield _unescaped(mount_root), _unescaped(mount_point)


def _unescaped(path: str) -> str:
    r"""Replace the octal escapes of mountinfo, such as \040 for a space."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _below(path: str, mount_root: str) -> str | None:
    """A cgroup's path relative to the root of a mount; None if the cgroup is not within the mount.

    Both paths are those in this process's cgroup namespace: in a namespace of its own, a container's cgroup is `/`, its
    neighbour is `/../neighbour`, and a mount made outside has a root such as `/..`.
    """
    if path != mount_root and not path.startswith(mount_root.rstrip("/") + "/"):
        return None
    below = path[len(mount_root) :].lstrip("/")
    return None if below.split("/")[0] == ".." else below


LONGEST_SECONDS = 60.0
"""The longest age of the list of mounts: an emulated kernel may not report changes."""


class Mounts:
    """The text of `/proc/self/mountinfo`, read again only if the mounts have changed.

    A host of containers has thousands of mounts, and the kernel takes 2 ms per thousand to list them. poll(2) on the
    open file reports each change once (proc_pid_mountinfo(5)). A forked child, which may be in another mount namespace,
    reads its own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._file: BinaryIO | None = None
        self._changes = select.poll()
        self._process = 0
        self._text = ""
        self._read_at = float("-inf")

    def read(self) -> str:
        """The list as of now. Raises OSError."""
        if self._file is None or self._process != os.getpid():
            self._open()
        now = self._clock()
        if self._changes.poll(0) or now - self._read_at >= LONGEST_SECONDS:
            assert self._file is not None
            self._file.seek(0)
            self._text, self._read_at = self._file.read().decode(errors="surrogateescape"), now
        return self._text

    def _open(self) -> None:
        self._file = open("/proc/self/mountinfo", "rb", buffering=0)  # noqa: SIM115 - it stays open
        self._process, self._read_at = os.getpid(), float("-inf")
        self._changes = select.poll()
        self._changes.register(self._file, select.POLLERR | select.POLLPRI)


OUR_MOUNTS = Mounts()
"""Those of the exporter: all servers share them."""
