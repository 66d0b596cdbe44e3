"""How often the kernel has killed a process for want of memory, in a process's cgroup and on the host.

Of a cgroup: `oom_kill` of `memory.events` (version 2, since Linux 4.13) or of `memory.oom_control` (version 1, since
4.13), with everything below it. Of the host: `oom_kill` of `/proc/vmstat`, which counts those of cgroups as well.
Which process it was is in the kernel's log alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.cgroups import find_cgroups

ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class OomKills:
    """Since each began; None where the kernel does not say."""

    cgroup: int | None
    host: int | None


def read_oom_kills(pid: int, *, root: Path = ROOT) -> OomKills:
    """The counts for a process. `root` is where `/proc` and `/sys` are. Never raises."""
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
