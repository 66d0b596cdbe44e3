"""Reads the mounts of this process, and again only if they have changed.

A host of containers has thousands of mounts, and the kernel takes 2 ms per thousand to list them. poll(2) on the open
file reports each change once (proc_pid_mountinfo(5)).
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import BinaryIO

LONGEST_SECONDS = 60.0
"""The longest age of the list: an emulated kernel may not report changes."""


class Mounts:
    """The text of `/proc/self/mountinfo`. A forked child, which may be in another mount namespace, reads its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._file: BinaryIO | None = None
        self._changes = select.poll()
        self._process = 0
        self._text = ""
        self._read_at = float("-inf")

    def read(self) -> str:
        """The list as of now. Raises OSError."""
        if self._file is None or self._process != os.getpid():
            self._open()
        now = self._clock()
        if self._changes.poll(0) or now - self._read_at >= LONGEST_SECONDS:
            assert self._file is not None
            self._file.seek(0)
            self._text, self._read_at = self._file.read().decode(errors="surrogateescape"), now
        return self._text

    def _open(self) -> None:
        self._file = open("/proc/self/mountinfo", "rb", buffering=0)  # noqa: SIM115 - it stays open
        self._process, self._read_at = os.getpid(), float("-inf")
        self._changes = select.poll()
        self._changes.register(self._file, select.POLLERR | select.POLLPRI)


OUR_MOUNTS = Mounts()
"""Those of the exporter: all servers share them."""
