"""Finds the process that listens on a TCP port of this machine, among the processes that this user may inspect."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

PREFIX = "headroom-demo-"
"""Of the name of a demo's directory, which is TMPDIR for all that it starts; short, because the path of a UNIX socket
holds 107 bytes."""

PROC = Path("/proc")
LISTENING = "0A"  # TCP_LISTEN in /proc/net/tcp


@dataclass(frozen=True)
class Listener:
    """A process that listens. demo: the PID of the demo that started it, if a demo did."""

    pid: int
    name: str
    demo: int | None

    def __str__(self) -> str:
        return f"another demo (process {self.demo})" if self.demo else f"{self.name} (process {self.pid})"


def listener(port: int) -> Listener | None:
    """Returns the process that listens on the port; None if there is none, or it is another user's or just ending."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for folder in PROC.glob("[0-9]*/fd") if sockets else ():
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            if any(str(descriptor.readlink()) in sockets for descriptor in folder.iterdir()):
                return _process(folder.parent)
    return None


def _inodes(port: int) -> set[str]:
    """Returns the inodes of the sockets that listen on the port, on any address."""
    lines = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            lines += (PROC / "self" / "net" / table).read_text().splitlines()[1:]
    # Fields: 1 address:port in hex, 3 state, 9 inode.
    rows = [line.split() for line in lines]
    return {row[9] for row in rows if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port}


def _process(folder: Path) -> Listener | None:
    variables = (folder / "environ").read_bytes()
    name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
    parent = int(rest.split()[1])
    ours = f"/{PREFIX}".encode() in variables
    return Listener(int(folder.name), name, parent if ours else None) if variables else None
