"""Reads which descriptors a thread polls: the only place where the exporter reads the memory of another process.

It is off unless `--read-pollfds` is given. poll(2) takes an array of `struct pollfd` in the caller's memory, and its
address is an argument of the system call. Of each of at most 16 entries, eight bytes are read with
process_vm_readv(2), which does not stop the process; of these, only the descriptor's number is kept.
"""

from __future__ import annotations

import ctypes
import struct

MOST_ENTRIES = 16

_pollfd = struct.Struct("=ihh")  # descriptor, events, returned events


_LIBC = ctypes.CDLL(None)


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def read_poll_descriptors(pid: int, array: int, number: int) -> list[int]:
    """The descriptors in an array of `number` entries at the address `array`; none if it cannot be read, or has more
    than 16."""
    if not 0 < number <= MOST_ENTRIES:
        return []
    size = number * _pollfd.size
    buffer = ctypes.create_string_buffer(size)
    here, there = _Iovec(ctypes.addressof(buffer), size), _Iovec(array, size)
    copied = _LIBC.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if copied != size:
        return []
    return [descriptor for descriptor, _, _ in _pollfd.iter_unpack(buffer.raw) if descriptor >= 0]
