"""Names the file system of a program or another host for whose answer threads wait: by the kernel's function that a
thread sleeps in, and the mounts of its process. Nothing in it is touched: that would wait, too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from operator import itemgetter

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.aside import Asks

KINDS: Mapping[str, tuple[str, ...]] = {
    "FUSE": ("request_wait_answer", "fuse_"),
    "NFS": ("rpc_", "nfs"),
    "CIFS": ("cifs_", "smb2_", "wait_for_response"),
    "9P": ("p9_",),
    "Ceph": ("ceph_",),
}
"""How the functions begin in which a thread waits for an answer (Linux 6.18). Types of mounts begin with the kind."""


def find_kind(pid: int, thread: int) -> str:
    """The kind of file system for whose answer a thread waits; empty if for none, or if the kernel does not say."""
    with suppress(OSError):
        function = procfs.read_line(f"/proc/{pid}/task/{thread}/wchan").decode(errors="replace")
        return next((kind for kind, begins in KINDS.items() if function.startswith(begins)), "")
    return ""


def list_mounts(pid: int) -> list[tuple[str, str]]:
    """Kind and path of a process's mounts of such file systems, each after those that it is in. Raises OSError."""
    text = procfs.read_begin(256 << 10, f"/proc/{pid}/mounts").decode(errors="replace")
    rows = [line.split(" ") for line in text.splitlines() if line.isprintable()]
    rows = [row for row in rows if len(row) > 2 and len(row[1]) <= 200 and row[2] not in ("fusectl", "nfsd")]
    mounts = [(kind, row[1]) for row in rows for kind in KINDS if row[2].startswith(kind.lower())]
    return sorted(mounts, key=itemgetter(1))


class FileServers:
    """The mounts of such file systems that the workers of one server have, read once a minute."""

    def __init__(self, asks: Asks) -> None:
        self._asks, self._until, self._known = asks, 0.0, list[tuple[str, str]]()

    def find(self, pid: int, kind: str, path: str) -> tuple[str, str]:
        """Kind and path of the mount for whose answer a thread waits, each empty if unknown or another. kind: by the
        kernel's function; path: of the file; both may be empty."""
        if time.monotonic() >= self._until:
            self._until = time.monotonic() + 1.0
            with suppress(OSError):
                self._known, self._until = self._asks.ask(list_mounts, pid), time.monotonic() + 60.0
        fit = [each for each in self._known if kind in ("", each[0])] * bool(kind or path)
        if path:
            fit = [each for each in fit if path.startswith(f"{each[1].rstrip('/')}/")][-1:]
        return (*fit * (len(fit) == 1), (kind, ""))[0]
