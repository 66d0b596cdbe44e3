"""Names the file system of another host, or of a program, for whose answer threads wait: by the kernel's function that
a thread sleeps in, and by the mounts of its process. Nothing in such a file system is touched: that would wait, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import Asks
from uwsgi_headroom.record import FileSystem

FUNCTIONS: Mapping[str, str] = {
    "request_wait_answer": "FUSE",
    "fuse_": "FUSE",
    "rpc_": "NFS",
    "nfs": "NFS",
    "cifs_": "CIFS",
    "smb2_": "CIFS",
    "wait_for_response": "CIFS",
    "p9_": "9P",
    "ceph_": "Ceph",
}
"""How the names of functions begin in which a thread waits for an answer (fs/fuse/dev.c, net/sunrpc/sched.c, fs/nfs,
fs/smb/client, net/9p, fs/ceph of Linux 6.18)."""

_TYPES: Mapping[str, str] = {"fuse": "FUSE", "nfs": "NFS", "cifs": "CIFS", "smb3": "CIFS", "9p": "9P", "ceph": "Ceph"}
"""How the types of such file systems begin in the table of mounts."""

_MOST_BYTES = 256 << 10
_LONGEST_PATH = 200
_KNOWN_SECONDS = 60.0


def find_kind(pid: int, thread: int) -> str:
    """The kind of file system for whose answer a thread waits; empty if for none, or if the kernel does not say."""
    try:
        function = procfs.read_line(f"/proc/{pid}/task/{thread}/wchan").decode(errors="replace")
    except OSError:
        return ""
    return next((kind for begin, kind in FUNCTIONS.items() if function.startswith(begin)), "")


def list_mounts(pid: int) -> list[FileSystem]:
    """The mounts of such file systems that a process has. Raises OSError."""
    found = []
    for line in procfs.read_begin(_MOST_BYTES, f"/proc/{pid}/mounts").splitlines():
        _, place, kind, *_ = [*line.decode(errors="replace").split(" "), "", ""][:3]
        known = next((name for begin, name in _TYPES.items() if kind.startswith(begin)), "")
        if known and len(place) <= _LONGEST_PATH:
            found.append(FileSystem(known, "".join(each if each.isprintable() else "?" for each in place)))
    return found


class FileSystems:
    """The file systems for which the threads of one server wait."""

    def __init__(self, asks: Asks, clock: Callable[[], float] = time.monotonic) -> None:
        self._asks, self._clock = asks, clock
        self._mounts: Sequence[FileSystem] = ()
        self._until = float("-inf")

    def find(self, pid: int, kind: str, path: str) -> FileSystem | None:
        """The one for which a thread waits. kind: by the kernel's function; path: of the file, if that is known."""
        if self._clock() >= self._until:
            try:
                self._mounts = self._asks.ask(list_mounts, pid)
                self._until = self._clock() + _KNOWN_SECONDS
            except OSError:
                pass
        mounts = [each for each in self._mounts if each.kind == kind or not kind]
        if path:
            mounts = [each for each in mounts if path.startswith(f"{each.mount.rstrip('/')}/")]
            mounts = sorted(mounts, key=lambda each: len(each.mount))[-1:]
        if len(mounts) == 1:
            return mounts[0]
        return FileSystem(kind) if kind else None
