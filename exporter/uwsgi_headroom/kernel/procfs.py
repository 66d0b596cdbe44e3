"""Reading the small files of `/proc` and `/sys`, which a reading does by the dozen."""

from __future__ import annotations

import os


def read_file(*path: str | os.PathLike[str]) -> bytes:
    """The whole file. Without a buffer, which takes half the time of `Path.read_bytes`. Raises OSError."""
    with open(os.path.join(*path), "rb", buffering=0) as file:
        return file.read()


def read_text(*path: str | os.PathLike[str]) -> str:
    """The whole file as text. Raises OSError, or ValueError where it is not UTF-8."""
    return read_file(*path).decode()


def read_stat_fields(*path: str) -> list[bytes]:
    """The fields of a process's or a thread's `stat` behind its name, which may itself hold spaces and parentheses:
    the first is the third of proc_pid_stat(5). Raises OSError."""
    return read_file(*path).rpartition(b")")[2].split()
