"""Has the C library give large blocks of memory back to the kernel as soon as they are freed.

glibc does so at first, and learns from each large block that is freed to take the next one of its size from its heap,
where what is freed returns to the kernel only once everything above it is freed too. A document of 6 MB, decoded now
and then beside small objects that stay, leaves that heap full of holes: beside two hundred hostile servers the exporter
came to hold twice the memory that it used.
"""

from __future__ import annotations

import contextlib
import ctypes

LARGE_BYTES = 1024 * 1024
"""Blocks from this size on. The kernel clears each page of each of them anew, some 1.5 ms for a text of 3 MB: no price
for what is seldom, a high one for each document of common size."""

_M_MMAP_THRESHOLD = -3  # malloc.h


def return_large_blocks() -> None:
    """Do so from now on; nothing happens where the C library is not glibc."""
    with contextlib.suppress(OSError, AttributeError):  # musl knows no mallopt, and has no such heap either
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
