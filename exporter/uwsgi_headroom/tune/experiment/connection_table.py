"""Reads the kernel's table of tracked connections, which firewalls and containers need, and waits for room in it.

When it is full, the kernel drops packets that begin a connection. Clients try again after a second and more, while the
CPUs are idle: a load of many short connections then measures that, not the server. Entries of closed connections stay
for two minutes, as `nf_conntrack_tcp_timeout_time_wait` says.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

FULL = 0.75
"""The part of the table in use from which dropped packets are blamed on it: some entries may have expired since."""

ROOM = 0.5
"""The part of the table that is free before a run is repeated."""

MOST_SECONDS = 150.0
"""How long a run waits for room at most."""


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
        most = int((proc / "sys/net/netfilter/nf_conntrack_max").read_text())
        head, *lines = (proc / "net/stat/nf_conntrack").read_text().splitlines()
        rows = [dict(zip(head.split(), line.split(), strict=False)) for line in lines]  # one for each CPU
        if rows and most:
            entries = max(int(row.get("entries", "0"), 16) for row in rows)  # each has that of all CPUs
            return ConnectionTable(entries, most, sum(int(row.get("drop", "0"), 16) for row in rows))
    return None


def overfull_since(before: ConnectionTable | None) -> ConnectionTable | None:
    """Return the table if it was full since an earlier reading, so that packets were dropped; else None."""
    after = read_table()
    if before and after and after.dropped > before.dropped and after.entries >= FULL * after.most:
        return after
    return None


def wait_for_room() -> None:
    """Return when enough of the table is free, or after `MOST_SECONDS`."""
    end = time.monotonic() + MOST_SECONDS
    while (table := read_table()) and table.entries > (1 - ROOM) * table.most and time.monotonic() < end:
        time.sleep(1.0)
