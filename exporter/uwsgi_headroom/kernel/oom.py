"""Reads how often the kernel has killed a process because memory ran out, in a process's cgroup and on the host.

For a cgroup and those below it, the count is `oom_kill` in `memory.events` (version 2) or `memory.oom_control` (version
1), since Linux 4.13. For the host it is `oom_kill` in `/proc/vmstat`, which includes kills in cgroups. Only the
kernel's log has the name of the killed process.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.cgroups import find_cgroups

ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class OomKills:
    """OOM kills since the creation of the cgroup and the boot of the host; None if the kernel does not count them."""

    cgroup: int | None
    host: int | None


def read_oom_kills(pid: int, *, root: Path = ROOT) -> OomKills:
    """The counts for a process. `root` is the parent directory of `/proc` and `/sys`. Never raises."""
    return OomKills(_read_cgroup(pid, root), _read_count(root, "proc/vmstat"))


def _read_cgroup(pid: int, root: Path) -> int | None:
    try:
        cgroups = find_cgroups(pid, "memory", root)
    except (OSError, ValueError):
        return None
    if not cgroups.folders:
        return None
    return _read_count(cgroups.folders[-1], "memory.oom_control" if cgroups.version == 1 else "memory.events")


def _read_count(folder: Path | str, file: str) -> int | None:
    try:
        lines = procfs.read_text(folder, file).splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
    except (OSError, ValueError, IndexError):
        return None
