"""Reads configuration files as a uWSGI master sees them: within its root directory, from its working directory.

Both directories need the permission to trace the process, as its descriptors do (see `descriptors`). The files are
untrusted: only a regular file is opened, the read never blocks, and one bound applies to all files of a process
together.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_BYTES = 256 << 10
_MOST_LINKS = 40  # the kernel's own limit: path_resolution(7)


class MasterFiles:
    """The files of one process. newest: the latest change of any file read so far, in epoch seconds."""

    def __init__(self, pid: int, *, proc: Path = Path("/proc")) -> None:
        self._process = proc / str(pid)
        self._bytes_left = MOST_BYTES
        self.newest = 0.0

    def read_command_line(self) -> list[str]:
        """The words of the process's command line. Raises OSError, for example if it is longer than MOST_BYTES."""
        text = _read_bounded(os.open(self._process / "cmdline", os.O_RDONLY | os.O_CLOEXEC), MOST_BYTES)
        return text.decode(errors="replace").removesuffix("\0").split("\0")

    def is_working_directory(self, path: str) -> bool:
        """Whether an absolute path is that of the working directory; False if the working directory is hidden."""
        try:
            return os.readlink(self._process / "cwd") == (path.rstrip("/") or "/")
        except OSError:
            return False

    def read(self, name: str) -> str:
        """Read a file by the name that the process would use. Raises OSError, for example if all files together are
        longer than MOST_BYTES; ValueError for an impossible name."""
        path = self._resolve(os.path.join(os.readlink(self._process / "cwd"), name))
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise OSError(f"{name} is not a regular file")
        # The file may have been replaced since, so its type is checked again, and open() and read() never block.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
        self.newest = max(self.newest, os.fstat(file).st_ctime)
        content = _read_bounded(file, self._bytes_left)
        self._bytes_left -= len(content)
        return content.decode(errors="replace")

    def _resolve(self, path: str) -> str:
        """Translate an absolute path of the process to a path of this process. Links are resolved within the process's
        root directory, which may be that of a container. Raises OSError."""
        root = str(self._process / "root")
        left, passed, links = path.split("/")[::-1], list[str](), 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                passed = passed[:-1]
                continue
            here = os.path.join(root, *passed, part)
            if not stat.S_ISLNK(os.lstat(here).st_mode):
                passed.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(f"{path} has too many symbolic links")
            target = os.readlink(here)
            passed = [] if target.startswith("/") else passed
            left += target.split("/")[::-1]
        return os.path.join(root, *passed)


def _read_bounded(file: int, most: int) -> bytes:
    """Read all of an open regular file and close it. Raises OSError, for example if it is longer than `most` bytes."""
    with open(file, "rb", buffering=0) as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError("not a regular file")
        content = b""
        while len(content) <= most and (part := opened.read(most + 1 - len(content))):
            content += part
    if len(content) > most:
        raise OSError(f"longer than {most} bytes")
    return content
