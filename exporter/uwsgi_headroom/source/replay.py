"""Reads a stats document from a file, to replay it."""

from __future__ import annotations

import errno
import os
import stat

from uwsgi_headroom.errors import SourceError
from uwsgi_headroom.source.address import File
from uwsgi_headroom.source.answer import Answer


def replay_file(address: File, size_cap: int) -> Answer:
    """Read a regular file. Raises OSError or SourceError."""
    try:
        # Non-blocking: otherwise open() of a FIFO without a writer hangs before fstat() can check its type.
        descriptor = os.open(address.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        raise SourceError("permission", f"permission denied: this user may not read {address.path}") from None
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket cannot be opened at all
            raise _not_regular(address) from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _not_regular(address)
        if status.st_size > size_cap:
            raise SourceError("too_large", f"{address.path} is larger than the cap of {size_cap} bytes")
        with open(descriptor, "rb", closefd=False) as file:  # os.close() below also runs if open() raises
            return Answer(file.read(size_cap))
    finally:
        os.close(descriptor)


def _not_regular(address: File) -> SourceError:
    return SourceError("not_found", f"{address.path} is not a regular file")
