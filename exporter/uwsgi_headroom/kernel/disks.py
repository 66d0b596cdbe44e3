"""Finds the file systems without room that uWSGI uses: those of its directory, its log, open and temporary files.

Only those of this host are asked: one of another host, or of a program (FUSE), may never answer.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.record import DiskUse, FullDisk

_LOCAL = ("btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "reiserfs", "tmpfs", "xfs", "zfs")
_MOST_FILES, _MOST_MOUNTS = 64, 256 << 10

FULL = (4 << 20, 0.01)
"""Fewer free bytes than these, and a smaller part of the whole, are no room."""


def find_full_disks(pid: int, log_path: str) -> tuple[FullDisk, ...]:
    """Those of a process; none if its directory is hidden. A question for `aside`."""
    try:
        places = dict(_list_places(pid, log_path))
        lines = procfs.read_begin(_MOST_MOUNTS, f"/proc/{pid}/mounts").decode(errors="replace").splitlines()
        is_root = os.stat(f"/proc/{pid}").st_uid == 0
    except OSError:
        return ()
    kinds = {words[1]: words[2] for words in (line.split(" ") for line in lines) if len(words) > 2}
    found = dict[str, DiskUse]()
    for place, use in places.items():
        mount = place
        while mount not in kinds and mount != "/":
            mount = os.path.dirname(mount)
        if kinds.get(mount) in _LOCAL and mount.isprintable():
            found.setdefault(mount, use)
    return tuple(_find_full(pid, found, is_root))


def _list_places(pid: int, log_path: str) -> Iterator[tuple[str, DiskUse]]:
    """Paths as the process sees them, and what they are for. Raises OSError."""
    for _, path in procfs.list_descriptors(pid, _MOST_FILES):
        if path.startswith("/"):
            yield path, "open files"
    yield "/tmp", "temporary files"  # noqa: S108 - nothing is written
    if log_path.startswith("/"):
        yield log_path, "log"
    yield os.readlink(f"/proc/{pid}/cwd"), "directory"


def _find_full(pid: int, mounts: dict[str, DiskUse], is_root: bool) -> Iterator[FullDisk]:
    least, part = FULL
    for mount, use in mounts.items():
        try:
            disk = os.statvfs(f"/proc/{pid}/root{mount}")
        except OSError:
            continue
        blocks, files = (disk.f_bfree, disk.f_ffree) if is_root else (disk.f_bavail, disk.f_favail)
        is_full = blocks * disk.f_frsize < min(least, part * disk.f_blocks * disk.f_frsize)
        lacks_inodes = disk.f_files > 0 == files
        if (is_full or lacks_inodes) and not disk.f_flag & os.ST_RDONLY:
            yield FullDisk(use, mount, blocks * disk.f_frsize, not is_full)
