"""Names the file system of a program or another host for whose answer threads wait: by the kernel's function that a
thread sleeps in, and the mounts of its process. Nothing in such a file system is touched: that would wait, too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import Asks
from uwsgi_headroom.record import FileSystem

KINDS: Mapping[str, tuple[str, ...]] = {
    "FUSE": ("request_wait_answer", "fuse_"),
    "NFS": ("rpc_", "nfs"),
    "CIFS": ("cifs_", "smb2_", "wait_for_response"),
    "9P": ("p9_",),
    "Ceph": ("ceph_",),
}
"""How the functions begin in which a thread waits for an answer (Linux 6.18). Types of mounts begin with the kind."""

_KNOWN_SECONDS = 60.0


def find_kind(pid: int, thread: int) -> str:
    """The kind of file system for whose answer a thread waits; empty if for none, or if the kernel does not say."""
    with suppress(OSError):
        function = procfs.read_line(f"/proc/{pid}/task/{thread}/wchan").decode(errors="replace")
        return next((kind for kind, begins in KINDS.items() if function.startswith(begins)), "")
    return ""


def list_mounts(pid: int) -> list[FileSystem]:
    """The mounts of such file systems that a process has, the shortest path first. Raises OSError."""
    text = procfs.read_begin(256 << 10, f"/proc/{pid}/mounts").decode(errors="replace")
    rows = [line.split(" ")[1:3] for line in text.splitlines() if line.isprintable()]
    found = [FileSystem(kind, row[0]) for row in rows for kind in KINDS if row[1:] and row[1].startswith(kind.lower())]
    return sorted([each for each in found if len(each.mount) <= 200], key=lambda each: len(each.mount))


class FileSystems:
    """The file systems for which the threads of one server wait."""

    def __init__(self, asks: Asks) -> None:
        self._asks, self._until, self._mounts = asks, 0.0, list[FileSystem]()

    def find(self, pid: int, kind: str, path: str) -> FileSystem | None:
        """The one for which a thread waits. kind: by the kernel's function; path: of the file, if that is known."""
        with suppress(OSError):
            if time.monotonic() >= self._until:
                self._mounts = self._asks.ask(list_mounts, pid)
                self._until = time.monotonic() + _KNOWN_SECONDS
        mounts = [each for each in self._mounts if kind in ("", each.kind)]
        if path:
            mounts = [each for each in mounts if path.startswith(f"{each.mount.rstrip('/')}/")][-1:]
        return mounts[0] if len(mounts) == 1 else FileSystem(kind) if kind else None
