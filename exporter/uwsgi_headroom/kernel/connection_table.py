"""Reads the kernel's table of tracked connections, which firewalls and containers need.

When it is full, the kernel drops packets that begin a connection: clients, and connections to backends, try again after
a second and more. Each network namespace has its own count; see nf_conntrack-sysctl.rst in the kernel's documentation.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from uwsgi_headroom.kernel import procfs


@dataclass(frozen=True, slots=True)
class ConnectionTable:
    """The table at one moment."""

    entries: int
    most: int
    """Entries that there can be."""

    dropped: int
    """Packets since the kernel started, also for other reasons."""


def read_table(proc: Path = Path("/proc")) -> ConnectionTable | None:
    """Return the table of this network namespace, None if connections are not tracked or this is not known."""
    with contextlib.suppress(OSError, ValueError):
        most = int(procfs.read_file(proc / "sys/net/netfilter/nf_conntrack_max"))
        head, *lines = procfs.read_file(proc / "net/stat/nf_conntrack").splitlines()
        rows = [dict(zip(head.split(), line.split(), strict=False)) for line in lines]  # one for each CPU
        if rows and most:
            entries = max(int(row.get(b"entries", b"0"), 16) for row in rows)  # each has that of all CPUs
            return ConnectionTable(entries, most, sum(int(row.get(b"drop", b"0"), 16) for row in rows))
    return None


@lru_cache(maxsize=1)
def read_table_once(_period: int) -> ConnectionTable | None:
    """The same, read once for all servers while the caller's count of periods does not change: it has a line for each
    CPU of the machine."""
    return read_table()
