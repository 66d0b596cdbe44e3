"""What the kernel shows of a uWSGI master's process to any user who may look: its configuration file, its directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_SUFFIXES = (".ini", ".xml", ".yaml", ".yml", ".json", ".js")


def read_command_line(pid: int, *, proc: Path = Path("/proc")) -> tuple[str, ...]:
    """The words of its command line; none where it has ended or has overwritten them (`procname`)."""
    try:
        text = (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ()
    return tuple(text.removesuffix("\0").split("\0"))


def find_configuration_file(words: Sequence[str]) -> str:
    """The first configuration file that a command line names, as it stands there; empty where it names none. What has
    a scheme is left out: an address may hold a secret."""
    for word in words[1:]:
        value = word.partition("=")[2] if word.startswith("--") else word
        path, colon, section = value.rpartition(":")  # file.ini:section
        for name in (value, path if colon and "/" not in section else ""):
            if name.endswith(_SUFFIXES) and "://" not in name:
                return name
    return ""


def read_working_directory(pid: int, *, proc: Path = Path("/proc")) -> str:
    """Its working directory; empty where this user may not know."""
    try:
        return os.readlink(proc / str(pid) / "cwd")
    except OSError:
        return ""
