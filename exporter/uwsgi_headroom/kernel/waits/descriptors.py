"""Reads which sockets a thread waits for, by its process's descriptors, in bounded time.

A process may have a million descriptors. What poll(2) waits for is an array in the memory of the process, which is read
unless `--read-pollfds` is `false`. The only other module that asks for memory is `locks`.
"""

from __future__ import annotations

import errno
import os
import re
import struct
from itertools import islice
from typing import NamedTuple

from msgspec import Struct, field

from uwsgi_headroom.kernel import procfs

_TFD = re.compile(rb"^tfd:\s*(\d+)", re.MULTILINE)

MOST_DESCRIPTORS = 512
_MOST_IN_EPOLL = 64
MOST_FDINFO_BYTES = 64 << 10


class Epolls(Struct):
    """What is known of the epoll sets of a process. idle: the descriptors of those that hold a listening socket: uWSGI
    keeps one for each thread, for life. too_large: whether one of the others was so large that none is read again: the
    kernel lists the whole set for every read, 1 ms per 1,000 entries."""

    idle: set[int] = field(default_factory=set)
    too_large: bool = False


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
    watched = [int(number) for number in _TFD.findall(text)[:_MOST_IN_EPOLL]]
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


def decode_poll_array(array: bytes) -> list[Polled]:
    """The descriptors in an array of `struct pollfd`; negative ones do not count, as for poll(2)."""
    return [
        Polled(descriptor, bool(events & POLLOUT) and not events & POLLIN)
        for descriptor, events, _ in _pollfd.iter_unpack(array)
        if descriptor >= 0
    ]
