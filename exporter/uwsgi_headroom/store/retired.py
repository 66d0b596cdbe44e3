"""The retired servers of a history file: a text file beside it, with a line for each retirement.

`uwsgi-headroom retire` writes it and a running exporter reads it, so no route has to write. The command may run as root
in a directory of the exporter's user: it follows no link.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from uwsgi_headroom.errors import HistoryFileError
from uwsgi_headroom.store.record import AHEAD_SECONDS

MOST_BYTES = 1_000_000
"""How much of the file's end is read: ten thousand retirements of long names."""

_MODE = 0o644  # names of servers, which /metrics shows too; the exporter's user is not the one that writes


def retire(history: Path, server: str, now: float) -> None:
    """Note that a server is retired at `now` (epoch seconds). Raises HistoryFileError."""
    path = retired_path(history)
    if "\n" in server:
        raise HistoryFileError(f"{server!r} is not the name of a server")
    try:
        descriptor = _open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.fchmod(descriptor, _MODE)  # whatever the umask is
            line = f"{now:.0f} {server}\n".encode(errors="backslashreplace")
            if os.write(descriptor, line) < len(line):
                os.write(descriptor, b"\n")  # so that only this line is damaged
                raise OSError("no space is left on the disk")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HistoryFileError(f"{path}: {error.strerror or error}") from None


def read_retired(history: Path, now: float | None = None) -> dict[str, float]:
    """Return the epoch time of each server's last retirement, without later ones than `now` (epoch seconds)."""
    latest = (time.time() if now is None else now) + AHEAD_SECONDS
    try:
        descriptor = _open(retired_path(history), os.O_RDONLY)
    except OSError:
        return {}
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - MOST_BYTES))
        text = file.read(MOST_BYTES).decode(errors="replace")
    return {server: when for server, when in _parse(text) if when <= latest}


def retired_path(history: Path) -> Path:
    return Path(f"{history}-retired")


def _parse(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        when, _, server = line.partition(" ")
        if when.isascii() and when.isdigit() and len(when) <= 12 and server:
            yield server, float(when)


def _open(path: Path, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, _MODE)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # a second name of a file, which may be root's
        os.close(descriptor)
        raise OSError("not a regular file, or it has several names")
    return descriptor
