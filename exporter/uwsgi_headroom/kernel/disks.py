"""Finds the file systems without room that uWSGI uses, and the files of its metrics. File systems of another host, or
of a program (FUSE), are never asked for their room: they may not answer."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import islice
from pathlib import PurePath

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.surroundings import DiskUse, FullDisk

_LOCAL = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "reiserfs", "tmpfs", "xfs", "zfs")
_MOST_FILES, _MOST_MOUNTS, _MOST_ENTRIES = 256, 256 << 10, 20_000

FULL = (4e6, 0.01)
"""Fewer free bytes than these, and a smaller part of the whole, are no room."""


def find_full_disks(pid: int, log_path: str) -> tuple[FullDisk, ...]:
    """Those on which a process has its directory, log, open files or temporary files; none if they are hidden. A
    question for `aside`."""
    found = dict[str, FullDisk | None]()
    try:
        places: list[tuple[str, DiskUse]] = [(os.readlink(f"/proc/{pid}/cwd"), "directory"), (log_path, "log")]
        places += [("/tmp", "temporary files")]  # noqa: S108 - nothing is written
        places += [(path, "open files") for _, path in procfs.list_descriptors(pid, _MOST_FILES)]
        lines = procfs.read_begin(_MOST_MOUNTS, f"/proc/{pid}/mounts").decode(errors="replace").splitlines()
        kinds = {words[1]: words[2] for words in (line.split(" ") for line in lines) if len(words) > 2}
        for path, use in places:
            above = (path, *map(str, PurePath(path).parents)) * path.startswith("/")
            mount = next((each for each in above if each in kinds), "")
            if kinds.get(mount) in _LOCAL and mount.isprintable() and mount not in found:
                with suppress(OSError):
                    found[mount] = _look(pid, mount, use)
    except OSError:
        return ()
    return tuple(filter(None, found.values()))


_METRICS = re.compile(r"(/.*)/(?:counter|gauge_\w+|histogram|summary)_\w+\.db")


def count_metrics_files(pid: int) -> tuple[str, int]:
    """The folder in which a worker has files of prometheus_client's multiprocess mode open, and how many files there
    are; an empty folder if it has none. A question for `aside`."""
    with suppress(OSError):
        found = (_METRICS.fullmatch(path) for _, path in procfs.list_descriptors(pid, _MOST_FILES))
        if folder := next((match[1] for match in found if match and match[1].isprintable()), ""):
            with os.scandir(f"/proc/{pid}/root{folder}") as entries:
                return folder, sum(1 for _ in islice(entries, _MOST_ENTRIES))
    return "", 0


def _look(pid: int, mount: str, use: DiskUse) -> FullDisk | None:
    disk, is_root = os.statvfs(f"/proc/{pid}/root{mount}"), os.stat(f"/proc/{pid}").st_uid == 0
    blocks, files = (disk.f_bfree, disk.f_ffree) if is_root else (disk.f_bavail, disk.f_favail)
    (least, part), free = FULL, blocks * disk.f_frsize
    is_full, lacks_inodes = free < min(least, part * disk.f_blocks * disk.f_frsize), disk.f_files > 0 == files
    if disk.f_flag & os.ST_RDONLY or not (is_full or lacks_inodes):
        return None
    return FullDisk(use, mount, free, not is_full)
