"""Reads configuration files as a uWSGI master sees them: within its root directory, from its working directory.

Both directories need the permission to trace the process (see `procfs.read_socket_inodes`). The files are untrusted.
Names are resolved step by step from descriptors of directories, so that no link leads out of the process's root
directory, whatever is replaced meanwhile. Only a regular file is opened, the read never waits for long, and one bound
applies to all files of a process together.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from uwsgi_headroom.kernel.procfs import MOST_SECONDS, Patience

MOST_BYTES = 256 << 10
_MOST_LINKS = 40  # the kernel's own limit: path_resolution(7)
_MOST_DEPTH = 64  # directories, each of which takes a descriptor


class MasterFiles:
    """The files of one process. newest: the latest change of any file read so far, in epoch seconds."""

    def __init__(self, pid: int, *, proc: Path = Path("/proc"), patience: Patience | None = None) -> None:
        self._process = proc / str(pid)
        self._patience = patience or Patience()
        self._end: float | None = None
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
        longer than MOST_BYTES or take longer than half a second; ValueError for an impossible name."""
        path = os.path.join(os.readlink(self._process / "cwd"), name)
        self._end = self._end or time.monotonic() + MOST_SECONDS
        most = self._bytes_left
        content, changed = self._patience.ask(lambda: self._read(path, most), self._end - time.monotonic())
        self._bytes_left -= len(content)
        self.newest = max(self.newest, changed)
        return content.decode(errors="replace")

    def identify(self, name: str) -> tuple[int, int]:
        """The device and inode of a file, the same under each of its names. Raises OSError; ValueError for an
        impossible name."""
        path = os.path.join(os.readlink(self._process / "cwd"), name)
        return self._patience.ask(lambda: self._identify(path), MOST_SECONDS)

    def _identify(self, path: str) -> tuple[int, int]:
        with self._find(path) as found:
            status = os.fstat(found)
        return status.st_dev, status.st_ino

    def _read(self, path: str, most: int) -> tuple[bytes, float]:
        """The content of a file and its latest change."""
        with self._find(path) as found:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                raise OSError(f"{path} is not a regular file")
            # The type of an open descriptor never changes; a device or a FIFO is not opened even for a moment.
            file = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        changed = os.fstat(file).st_ctime
        return _read_bounded(file, most), changed

    @contextmanager
    def _find(self, path: str) -> Iterator[int]:
        """A descriptor for an absolute path of the process, which permits no more than fstat(2). Links are resolved
        within the process's root directory, which may be that of a container. Raises OSError."""
        with ExitStack() as opened:
            folders = [_open_path(self._process / "root", os.O_DIRECTORY, None, opened)]
            left, links = path.split("/")[::-1], 0
            while left:
                part = left.pop()
                if part in ("", "."):
                    continue
                if part == "..":
                    folders = folders[: max(1, len(folders) - 1)]
                    continue
                here = _open_path(part, os.O_NOFOLLOW, folders[-1], opened)
                if not stat.S_ISLNK(os.fstat(here).st_mode):
                    folders.append(here)
                    if len(folders) > _MOST_DEPTH:
                        raise OSError(f"{path} is in too many directories")
                    continue
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(f"{path} has too many symbolic links")
                target = os.readlink("", dir_fd=here)
                folders = folders[:1] if target.startswith("/") else folders
                left += target.split("/")[::-1]
            yield folders[-1]


def _open_path(path: str | Path, flags: int, folder: int | None, opened: ExitStack) -> int:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=folder)
    opened.callback(os.close, descriptor)
    return descriptor


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
