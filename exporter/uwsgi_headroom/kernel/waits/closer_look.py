"""Looks closer at threads whose system call does not say what they wait for: at the descriptors that they poll, which
are in the memory of their process, and at the sockets in their epoll sets. Both are questions for `aside`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits import descriptors, memory
from uwsgi_headroom.kernel.waits.system_calls import Calls, find_calls, parse_system_call


class CloserLook(NamedTuple):
    """What was seen. polls: of each thread, the kernel's line, empty if it has ended, and the array that it polls, None
    if that cannot be read; sets: of each epoll set, the inodes of its sockets, and its size in bytes. is_refused:
    whether the kernel refuses to read memory."""

    polls: Sequence[tuple[bytes, bytes | None]]
    sets: Sequence[tuple[tuple[int, ...], int]]
    is_refused: bool


def look_closer(threads: Sequence[tuple[int, int]], sets: Sequence[tuple[int, int]]) -> CloserLook:
    """Look at threads by process and id, and at epoll sets by process and descriptor. A thread may have gone on since
    it was chosen, so its line is read anew."""
    polls: list[tuple[bytes, bytes | None]] = []
    is_refused = False
    for pid, thread in threads:
        line, array = b"", None
        try:
            line = procfs.read_line(f"/proc/{pid}/task/{thread}/syscall")
            array = None if is_refused else _read_array(pid, line)
        except memory.RefusedToReadError:
            is_refused = True
        except (OSError, ValueError):
            pass
        polls.append((line, array))
    return CloserLook(polls, [descriptors.list_sockets_in_epoll(*each) for each in sets], is_refused)


def _read_array(pid: int, line: bytes) -> bytes | None:
    """The array of a thread in poll(2). Raises RefusedToReadError, or ValueError for an odd line."""
    call = parse_system_call(line)
    if isinstance(call, str) or _calls().kinds.get(call[0]) != "poll":
        return None
    address, number = call[1][:2]
    if not 0 < number <= descriptors.MOST_ENTRIES:
        return None
    (array,) = memory.read_pieces(pid, [(address, number * descriptors.ENTRY_BYTES)])
    return array


@cache
def _calls() -> Calls:
    return find_calls() or Calls({}, False)
