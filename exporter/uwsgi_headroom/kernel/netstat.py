"""Reads how many connections found a TCP listen queue full, counted by the kernel per network namespace."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from uwsgi_headroom.kernel import procfs

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ListenOverflows:
    """Counts of all TCP listeners of a network namespace since its creation; UNIX sockets are not counted.

    `overflows`: how often a handshake, at its first or last packet, found the queue full (TcpExt ListenOverflows);
    each retry counts again. `drops`: everything that listeners dropped, overflows included (ListenDrops).
    """

    overflows: int
    drops: int


def read_listen_overflows(pid: int | None = None, *, proc: Path = PROC) -> ListenOverflows | None:
    """The counts in the network namespace of a process, this process by default; None if they cannot be read."""
    try:
        lines = procfs.read_file(proc, str(pid) if pid else "self", "net/netstat").splitlines()
    except OSError:
        return None
    # Pairs of lines: "TcpExt: Name ..." and "TcpExt: number ...".
    for names, numbers in zip(lines[::2], lines[1::2], strict=False):
        if names.startswith(b"TcpExt:"):
            places, counts = names.split(), numbers.split()
            with suppress(ValueError, IndexError):  # a kernel without these counters
                overflows, drops = places.index(b"ListenOverflows"), places.index(b"ListenDrops")
                return ListenOverflows(int(counts[overflows]), int(counts[drops]))
    return None
