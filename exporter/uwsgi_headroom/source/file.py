"""Replaying a stats document from a file."""

from __future__ import annotations

import os
import stat

from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.source.address import File
from uwsgi_headroom.source.stream import Answer


def read(address: File, size_cap: int) -> Answer:
    """Read a regular file. Raises OSError or SourceError."""
    # Non-blocking: opening a FIFO nobody writes to would otherwise hang before its kind can be seen.
    descriptor = os.open(address.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise SourceError("not_found", f"{address.path} is not a regular file")
        if status.st_size > size_cap:
            raise SourceError("too_large", f"{address.path} is larger than the cap of {size_cap} bytes")
        return Answer(file.read(size_cap))
