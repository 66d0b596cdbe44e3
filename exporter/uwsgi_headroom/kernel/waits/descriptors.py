"""Reads which sockets a thread waits for, by its process's descriptors, in bounded time.

A process may have a million descriptors. What poll(2) waits for is an array in the memory of the process, which is read
unless `--no-read-pollfds` is given. The only other module that asks for memory is `locks`.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import time
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits import memory
from uwsgi_headroom.kernel.waits.system_calls import parse_system_call

_TFD = re.compile(rb"^tfd:\s*(\d+)", re.MULTILINE)

MOST_DESCRIPTORS = 512
_MOST_IN_EPOLL = 64
MOST_FDINFO_BYTES = 64 << 10


def read_target(pid: int, descriptor: int) -> str | None:
    """What a descriptor is open on, as its link says; None if it is closed."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return None


def read_socket(pid: int, descriptor: int) -> int | None:
    """The inode of a descriptor if it is a socket."""
    return procfs.socket_inode(read_target(pid, descriptor) or "")


def list_sockets(pid: int) -> dict[int, int]:
    """The inodes of a process's sockets by descriptor; none if they are hidden, or if it has too many descriptors."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as folder:
            numbers = [int(entry.name) for entry in islice(folder, MOST_DESCRIPTORS + 1)]
    except OSError:
        return {}
    if len(numbers) > MOST_DESCRIPTORS:
        return {}
    return {number: inode for number in numbers if (inode := read_socket(pid, number))}


def list_sockets_in_epoll(pid: int, descriptor: int) -> tuple[tuple[int, ...], int]:
    """The inodes of the sockets in an epoll set, as proc_pid_fdinfo(5) lists them, and how many bytes that list has,
    MOST_FDINFO_BYTES at most. The kernel makes the whole list for every read: a question for `aside`."""
    try:
        text = procfs.read_file(f"/proc/{pid}/fdinfo/{descriptor}", most=MOST_FDINFO_BYTES)
    except OSError as error:
        return (), MOST_FDINFO_BYTES if error.errno == errno.EFBIG else 0
    watched = sorted(map(int, _TFD.findall(text)))[:_MOST_IN_EPOLL]  # listening sockets were opened first
    return tuple(inode for each in watched if (inode := read_socket(pid, each))), len(text)


MOST_ENTRIES = 16
"""Longer arrays of poll(2) are not read."""

_pollfd = struct.Struct("=ihH")  # descriptor, events, returned events
ENTRY_BYTES = _pollfd.size

POLLIN, POLLOUT = 0x01, 0x04  # asm-generic/poll.h


class Polled(NamedTuple):
    """A descriptor that a thread polls. writes: whether it waits until it can write, and not for anything to read: so
    it does while a connection is made."""

    descriptor: int
    writes: bool


_timespec = struct.Struct("=qq")  # seconds, nanoseconds


def decode_polled(found: bytes, number: int) -> tuple[list[Polled], int | None]:
    """The descriptors in an array of `number` times `struct pollfd`, without negative ones, which do not count for
    poll(2), and the milliseconds of the `struct timespec` behind it, None without one."""
    size = number * ENTRY_BYTES
    polled = [
        Polled(descriptor, bool(events & POLLOUT) and not events & POLLIN)
        for descriptor, events, _ in _pollfd.iter_unpack(found[:size])
        if descriptor >= 0
    ]
    for seconds, nanoseconds in _timespec.iter_unpack(found[size:]):
        return polled, seconds * 1000 + nanoseconds // 1_000_000
    return polled, None


FRESH_SECONDS = 0.005
"""For so long a thread is taken to poll what it polled when it was chosen: as long as a look at it takes."""

GONE = b""
"""In place of the array of a thread that has gone on."""


PollingThread = tuple[int, int, int, int, int]
"""A thread in poll(2): the ids of the process and the thread, the address and the length of its array, and the address
of the timeout of ppoll(2), else 0. A plain tuple is sent in a tenth of the time of one with names."""


class CloserLook(NamedTuple):
    """What was seen. arrays: what each thread polls, with the timeout of ppoll(2) behind it; GONE, or None if that
    cannot be read; sets: of each epoll set, the inodes of its sockets, and its size in bytes. is_refused: whether the
    kernel refuses to read memory."""

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
        if arrays[each] is None and 0 < each[3] <= MOST_ENTRIES:
            by_process.setdefault(each[0], []).append(each)
    is_refused = False
    try:
        for pid, group in by_process.items():
            pieces = [(address, number * ENTRY_BYTES) for _, _, address, number, _ in group]
            pieces += [(timeout, _timespec.size) for *_, timeout in group if timeout]
            found = memory.read_pieces(pid, pieces)
            timeouts = iter(found[len(group) :])
            for each, array in zip(group, found, strict=False):
                timeout = next(timeouts) if each[4] else b""
                arrays[each] = None if array is None or timeout is None else array + timeout
    except memory.RefusedToReadError:
        is_refused = True
    in_sets = [list_sockets_in_epoll(*each) for each in sets]
    return CloserLook([arrays[each] for each in threads], in_sets, is_refused)


def _still_polls(of: PollingThread) -> bool:
    pid, thread, *array = of
    try:
        call = parse_system_call(procfs.read_line(f"/proc/{pid}/task/{thread}/syscall"))
    except (OSError, ValueError):
        return False
    return not isinstance(call, str) and list(call[1][:2]) == array[:2]
