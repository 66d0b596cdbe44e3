"""Computes how many more workers fit into memory: the available memory divided by that of one worker.

Advice to add processes must say whether they fit; `fits` writes that clause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from uwsgi_headroom.analysis.formatting import byte_size, counted
from uwsgi_headroom.kernel.facts import Memory
from uwsgi_headroom.kernel.worker_memory import Source


@dataclass(frozen=True, slots=True)
class MemoryHeadroom:
    """The memory headroom of a server, in bytes except for more_workers.

    more_workers: the number of workers that fit into `available`, on the host or in the cgroup that limits it.
    per_worker: the memory of one worker; if `source` is `anonymous`, an upper bound, so more workers may fit.
    together: the memory of all workers now.
    """

    more_workers: int
    per_worker: int
    source: Source
    available: int
    limited_by: Literal["host", "cgroup"]
    together: int

    @property
    def is_exact(self) -> bool:
        """Whether more_workers is exact, not a lower bound."""
        return self.source == "uss"


def compute_memory_headroom(memory: Memory | None) -> MemoryHeadroom | None:
    """The memory headroom; None if any part of it is unknown."""
    if memory is None or memory.available is None or memory.worker is None or memory.worker.largest <= 0:
        return None
    worker, available = memory.worker, memory.available
    return MemoryHeadroom(
        more_workers=available.byte_count // worker.largest,
        per_worker=worker.largest,
        source=worker.source,
        available=available.byte_count,
        limited_by=available.limited_by,
        together=worker.together,
    )


def fits(memory: Memory | None, more_processes: int) -> str:
    """Whether this many more processes (at least 1) fit into memory, as a clause for parentheses or after a comma:
    `2 more workers of 180 MB each fit into the 1.2 GB available`."""
    room = compute_memory_headroom(memory)
    if room is None:
        return f"whether {'it fits' if more_processes == 1 else 'they fit'} into memory is not known from here"
    each = f"{'' if room.is_exact else 'at most '}{byte_size(room.per_worker)}{'' if more_processes == 1 else ' each'}"
    available = byte_size(room.available)
    if room.more_workers >= more_processes:
        verb = "fits" if more_processes == 1 else "fit"
        return f"{counted(more_processes, 'more worker')} of {each} {verb} into the {available} available"
    if room.more_workers == 0:
        there = "there is no room" if room.is_exact else "there may be no room"
    else:
        there = f"there is room for {room.more_workers} {'only' if room.is_exact else 'for certain'}"
    return f"{'of' if room.more_workers else 'for'} which {there}: {each}, {available} available"
