"""Waits for room in the kernel's table of tracked connections.

When it is full, clients wait while the CPUs are idle: a load of many short connections then measures that, not the
server. Entries of closed connections stay for two minutes, as `nf_conntrack_tcp_timeout_time_wait` says.
"""

from __future__ import annotations

import time

from uwsgi_headroom.kernel.connection_table import ConnectionTable, read_table

FULL = 0.75
"""The part of the table in use from which dropped packets are blamed on it: some entries may have expired since."""

ROOM = 0.5
"""The part of the table that is free before a run is repeated."""

MOST_SECONDS = 150.0
"""How long a run waits for room at most."""


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
