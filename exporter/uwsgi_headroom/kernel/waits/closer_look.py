"""Looks closer at threads whose system call does not say what they wait for: at the descriptors that they poll, which
are in the memory of their process, and at the sockets in their epoll sets. Both are questions for `aside`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits import descriptors, memory
from uwsgi_headroom.kernel.waits.system_calls import parse_system_call

FRESH_SECONDS = 0.005
"""For so long a thread is taken to poll what it polled when it was chosen: as long as a look at it takes."""

GONE = b""
"""In place of the array of a thread that has gone on."""


PollingThread = tuple[int, int, int, int]
"""A thread in poll(2): the ids of the process and the thread, the address and the length of its array. A plain tuple
is sent in a tenth of the time of one with names."""


class CloserLook(NamedTuple):
    """What was seen. arrays: what each thread polls, GONE, or None if that cannot be read; sets: of each epoll set, the
    inodes of its sockets, and its size in bytes. is_refused: whether the kernel refuses to read memory."""

    arrays: Sequence[bytes | None]
    sets: Sequence[tuple[tuple[int, ...], int]]
    is_refused: bool


def look_closer(chosen_at: float, threads: Sequence[PollingThread], sets: Sequence[tuple[int, int]]) -> CloserLook:
    """Look at threads that were chosen at this monotonic time, and at epoll sets by process and descriptor."""
    is_late = time.monotonic() - chosen_at > FRESH_SECONDS
    arrays: dict[PollingThread, bytes | None] = {
        each: GONE if is_late and not _still_polls(each) else None for each in threads
    }
    by_process: dict[int, list[PollingThread]] = {}
    for each in threads:
        if arrays[each] is None and 0 < each[3] <= descriptors.MOST_ENTRIES:
            by_process.setdefault(each[0], []).append(each)
    is_refused = False
    try:
        for pid, group in by_process.items():
            pieces = [(address, number * descriptors.ENTRY_BYTES) for _, _, address, number in group]
            arrays.update(zip(group, memory.read_pieces(pid, pieces), strict=True))
    except memory.RefusedToReadError:
        is_refused = True
    in_sets = [descriptors.list_sockets_in_epoll(*each) for each in sets]
    return CloserLook([arrays[each] for each in threads], in_sets, is_refused)


def _still_polls(of: PollingThread) -> bool:
    pid, thread, *array = of
    try:
        call = parse_system_call(procfs.read_line(f"/proc/{pid}/task/{thread}/syscall"))
    except (OSError, ValueError):
        return False
    return not isinstance(call, str) and list(call[1][:2]) == array
