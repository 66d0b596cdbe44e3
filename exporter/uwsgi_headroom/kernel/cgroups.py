"""Where the cgroups of a process are: the folder of each level of one controller, of both cgroup versions.

A limit is enforced at every level of the cgroup tree, so a reader of limits asks each of them. On a hybrid host a
controller belongs to one of the two versions, and `/proc/<pid>/cgroup` says to which; see cgroups(7) and the kernel's
cgroup-v2.rst.

From inside a container nothing above its own cgroup can be seen: a limit of the pod around it is missed. And the
cgroup of another container may lie outside of what is mounted here: then its limits are unknown, which is not the same
as none.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Literal

from uwsgi_headroom.kernel import procfs


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The cgroup version that a controller belongs to, 0 if to none, and the folders of a process's cgroups: from the
    top of what is mounted here down to its own. path: of its own, as the kernel names it."""

    version: Literal[0, 1, 2]
    folders: tuple[str, ...] = ()
    path: str = ""


def find_cgroups(pid: int, controller: str, root: Path) -> Cgroups:
    """Find the cgroups of a process for a controller such as `cpu`. `root` is where `/proc` and `/sys` are.

    Raises `OSError` where they cannot be known: the process is gone, or its cgroup is not mounted here.
    """
    version, path = _cgroup(procfs.read_text(root, f"proc/{pid}/cgroup"), controller)
    if version == 0:
        return Cgroups(0)
    mountinfo = procfs.read_text(root, "proc/self/mountinfo")
    for mount_root, mount_point in _mounts(mountinfo, version, controller):
        if (below := _below(path, mount_root)) is None:
            continue
        top = os.path.join(root, mount_point.lstrip("/"))
        levels = tuple(accumulate(filter(None, below.split("/")), os.path.join, initial=top))
        if os.path.exists(os.path.join(levels[-1], "cgroup.procs")):  # else something is mounted over it
            return Cgroups(version, levels, path)
    raise FileNotFoundError(f"the cgroup of process {pid} is not mounted here")


def _cgroup(lines: str, controller: str) -> tuple[Literal[0, 1, 2], str]:
    """The cgroup version the controller belongs to, 0 if to none, and the path of the process in it."""
    unified: str | None = None
    for line in lines.splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return 1, path
        if not controllers:
            unified = path
    return (0, "") if unified is None else (2, unified)


def _mounts(mountinfo: str, version: Literal[1, 2], controller: str) -> list[tuple[str, str]]:
    """Where the hierarchy is mounted: for each mount, the cgroup at its top and its place (proc(5))."""
    mounts = []
    for line in mountinfo.splitlines():
        mount, _, filesystem = line.partition(" - ")
        kind, _, options = filesystem.split(" ", 2)
        of_version_1 = kind == "cgroup" and controller in options.split(",")
        if (version == 2 and kind == "cgroup2") or (version == 1 and of_version_1):
            _, _, _, mount_root, mount_point, *_ = mount.split(" ")
            mounts.append((_unescaped(mount_root), _unescaped(mount_point)))
    return mounts


def _unescaped(path: str) -> str:
    r"""mountinfo writes a space as \040, and so on."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _below(path: str, mount_root: str) -> str | None:
    """A cgroup's path from the top of a mount; None if it is not under it.

    Both are as seen from this process's cgroup namespace: with one of its own, a container's cgroup is `/`,
    its neighbour `/../neighbour`, and a mount made outside has a top such as `/..`.
    """
    if path != mount_root and not path.startswith(mount_root.rstrip("/") + "/"):
        return None
    below = path[len(mount_root) :].lstrip("/")
    return None if below.split("/")[0] == ".." else below
