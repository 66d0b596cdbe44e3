"""Reads which sockets a thread waits for, by its process's descriptors, in bounded time.

A process may have a million descriptors. `read_poll_descriptors` is the only place where the exporter reads the memory
of another process, and is off unless `--read-pollfds` is given.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from dataclasses import dataclass, field
from itertools import islice

from uwsgi_headroom.kernel import procfs

_TFD = re.compile(rb"^tfd:\s*(\d+)", re.MULTILINE)

_MOST_DESCRIPTORS = 512
_MOST_IN_EPOLL = 64
_MOST_FDINFO_BYTES = 64 << 10


@dataclass(slots=True)
class Epolls:
    """What is known of the epoll sets of a process. idle: the descriptors of those that hold a listening socket: uWSGI
    keeps one for each thread, for life. too_large: whether one of the others was so large that none is read again: the
    kernel lists the whole set for every read, 1 ms per 1,000 entries."""

    idle: set[int] = field(default_factory=set)
    too_large: bool = False


def read_socket(pid: int, descriptor: int) -> int | None:
    """The inode of a descriptor if it is a socket."""
    try:
        return procfs.socket_inode(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    except OSError:
        return None


def list_sockets(pid: int) -> tuple[int, ...]:
    """The inodes of a process's sockets; none if it has too many descriptors to look at."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as folder:
            names = [entry.name for entry in islice(folder, _MOST_DESCRIPTORS + 1)]
    except OSError:
        return ()
    if len(names) > _MOST_DESCRIPTORS:
        return ()
    return tuple(inode for name in names if (inode := read_socket(pid, int(name))))


def list_sockets_in_epoll(pid: int, descriptor: int, epolls: Epolls) -> tuple[int, ...]:
    """The inodes of the sockets in an epoll set, as proc_pid_fdinfo(5) lists them."""
    if epolls.too_large:
        return ()
    try:
        text = procfs.read_file(f"/proc/{pid}/fdinfo/{descriptor}")
    except OSError:
        return ()
    epolls.too_large = len(text) > _MOST_FDINFO_BYTES
    watched = [int(number) for number in _TFD.findall(text)[:_MOST_IN_EPOLL]]
    return tuple(inode for each in watched if (inode := read_socket(pid, each)))


MOST_ENTRIES = 16

_pollfd = struct.Struct("=ihh")  # descriptor, events, returned events


_LIBC = ctypes.CDLL(None)


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def read_poll_descriptors(pid: int, array: int, number: int) -> list[int]:
    """The descriptors that a thread polls; none if they cannot be read, or are more than 16.

    poll(2) takes an array of `number` entries (`struct pollfd`) in the caller's memory, and its address, `array`, is an
    argument of the system call. Of each entry, eight bytes are read with process_vm_readv(2), which does not stop the
    process; of these, only the descriptor's number is kept.
    """
    if not 0 < number <= MOST_ENTRIES:
        return []
    size = number * _pollfd.size
    buffer = ctypes.create_string_buffer(size)
    here, there = _Iovec(ctypes.addressof(buffer), size), _Iovec(array, size)
    copied = _LIBC.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if copied != size:
        return []
    return [descriptor for descriptor, _, _ in _pollfd.iter_unpack(buffer.raw) if descriptor >= 0]
