"""Says how many more workers fit into memory: the available memory divided by that of one worker.

Advice to add processes must say whether they fit; `fits` writes that clause.
"""

from __future__ import annotations

from uwsgi_headroom.record.server import Memory
from uwsgi_headroom.words.formats import byte_size, counted


def count_more_workers(memory: Memory) -> int:
    """The number of workers that fit into the available memory; more may fit unless the memory of one is exact."""
    return memory.available // memory.per_worker


def fits(memory: Memory | None, more_processes: int) -> str:
    """Whether this many more processes (at least 1) fit into memory, as a clause for parentheses or after a comma:
    `2 more workers of 180 MB each fit into the 1.2 GB available`."""
    if memory is None:
        return f"whether {'it fits' if more_processes == 1 else 'they fit'} into memory is not known from here"
    size = f"{'' if memory.is_exact else 'at most '}{byte_size(memory.per_worker)}"
    each = size if more_processes == 1 else f"{size} each"
    available, room = byte_size(memory.available), count_more_workers(memory)
    if room >= more_processes:
        verb = "fits" if more_processes == 1 else "fit"
        return f"{counted(more_processes, 'more worker')} of {each} {verb} into the {available} available"
    if room == 0:
        there = "there is no room" if memory.is_exact else "there may be no room"
    else:
        there = f"there is room for {room} {'only' if memory.is_exact else 'for certain'}"
    return f"{'of' if room else 'for'} which {there}: {each}, {available} available"
