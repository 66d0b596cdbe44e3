"""Reads configuration files as the master of a server sees them: in its root directory, from its working directory.

Both need the permission to trace the process, as its descriptors do (see `descriptors`). A file may be anything, put
there by anybody: it is opened only if it is an ordinary file, never waited for, and read up to a bound, which holds for
all files of a process together.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_BYTES = 256 << 10
_MOST_LINKS = 40  # what the kernel follows: path_resolution(7)


class MasterFiles:
    """The files of one process. newest: when the latest of those read so far was changed, in epoch seconds."""

    def __init__(self, pid: int, *, proc: Path = Path("/proc")) -> None:
        self._process = proc / str(pid)
        self._bytes_left = MOST_BYTES
        self.newest = 0.0

    def read_command_line(self) -> list[str]:
        """The words of its command line. Raises OSError, also where it is longer than MOST_BYTES."""
        text = _read_bounded(os.open(self._process / "cmdline", os.O_RDONLY | os.O_CLOEXEC), MOST_BYTES)
        return text.decode(errors="replace").removesuffix("\0").split("\0")

    def is_working_directory(self, path: str) -> bool:
        """Whether an absolute path is that of the working directory; False where that is hidden."""
        try:
            return os.readlink(self._process / "cwd") == (path.rstrip("/") or "/")
        except OSError:
            return False

    def read(self, name: str) -> str:
        """A file by the name that the process would open it by. Raises OSError, also where all files read are longer
        than MOST_BYTES together; ValueError for an impossible name."""
        path = self._resolve(os.path.join(os.readlink(self._process / "cwd"), name))
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise OSError(f"{name} is not an ordinary file")
        # Something else may stand there by now, so it is asked again, and neither opening nor reading ever waits.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
        self.newest = max(self.newest, os.fstat(file).st_ctime)
        content = _read_bounded(file, self._bytes_left)
        self._bytes_left -= len(content)
        return content.decode(errors="replace")

    def _resolve(self, path: str) -> str:
        """Where an absolute path of the process is, for this one: links lead where they lead in its root directory,
        which may be that of a container. Raises OSError."""
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
                raise OSError(f"{path} has too many links")
            target = os.readlink(here)
            passed = [] if target.startswith("/") else passed
            left += target.split("/")[::-1]
        return os.path.join(root, *passed)


def _read_bounded(file: int, most: int) -> bytes:
    """All of an open ordinary file, which is closed. Raises OSError, also where it is longer than `most` bytes."""
    with open(file, "rb", buffering=0) as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError("not an ordinary file")
        content = b""
        while len(content) <= most and (part := opened.read(most + 1 - len(content))):
            content += part
    if len(content) > most:
        raise OSError(f"longer than {most} bytes")
    return content
