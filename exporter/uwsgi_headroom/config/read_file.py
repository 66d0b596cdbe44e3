"""Reads small files that a configuration names: ordinary ones only, and never more than a megabyte."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from uwsgi_headroom.errors import ConfigError

LARGEST = 1024 * 1024
"""Bytes."""


def read_file(path: Path, where: str = "") -> bytes:
    """Read a file. where: the line that names it, for messages. Raises ConfigError."""
    prefix = f"{where}: " if where else ""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO without a writer would block
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{prefix}{path}: not an ordinary file")
            content = file.read(LARGEST + 1)
    except IsADirectoryError:
        raise ConfigError(f"{prefix}{path}: not an ordinary file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ConfigError(f"{prefix}{path}: {getattr(error, 'strerror', None) or 'not a path'}") from None
    if len(content) > LARGEST:
        raise ConfigError(f"{prefix}{path}: larger than a megabyte")
    return content
