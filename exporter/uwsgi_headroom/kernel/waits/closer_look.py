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


class PollingThread(NamedTuple):
    """A thread in poll(2), and the address and length of its array."""

    pid: int
    thread: int
    address: int
    number: int


class CloserLook(NamedTuple):
    """What was seen. arrays: what each thread polls, GONE, or None if that cannot be read; sets: of each epoll set, the
    inodes of its sockets, and its size in bytes. is_refused: whether the kernel refuses to read memory."""

    arrays: Sequence[bytes | None]
    sets: Sequence[tuple[tuple[int, ...], int]]
    is_refused: bool


def look_closer(chosen_at: float, threads: Sequence[PollingThread], sets: Sequence[tuple[int, int]]) -> CloserLook:
    """Look at threads that were chosen at this monotonic time, and at epoll sets by process and descriptor."""
    arrays: list[bytes | None] = []
    is_refused = False
    for each in threads:
        try:
            arrays.append(None if is_refused else _read_array(each, chosen_at))
        except memory.RefusedToReadError:
            is_refused = True
            arrays.append(None)
    return CloserLook(arrays, [descriptors.list_sockets_in_epoll(*each) for each in sets], is_refused)


def _read_array(of: PollingThread, chosen_at: float) -> bytes | None:
    """Raises RefusedToReadError."""
    if time.monotonic() - chosen_at > FRESH_SECONDS and not _still_polls(of):
        return GONE
    if not 0 < of.number <= descriptors.MOST_ENTRIES:
        return None
    (array,) = memory.read_pieces(of.pid, [(of.address, of.number * descriptors.ENTRY_BYTES)])
    return array


def _still_polls(of: PollingThread) -> bool:
    try:
        call = parse_system_call(procfs.read_line(f"/proc/{of.pid}/task/{of.thread}/syscall"))
    except (OSError, ValueError):
        return False
    return not isinstance(call, str) and call[1][:2] == (of.address, of.number)
