"""Finds where a running uWSGI writes its log, from its descriptors, else from its options.

Only a regular file that this process can see under the same name is found: a path that could not be read would be no
advice. A unit of systemd whose output is a socket writes to the journal. Reading the descriptors takes the rights of
waits.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from uwsgi_headroom.config.defaults import JOURNAL
from uwsgi_headroom.kernel.identity import find_systemd_unit
from uwsgi_headroom.kernel.options.spellings import PLAIN_NAME
from uwsgi_headroom.record import Options

_HAS_JOURNAL = Path("/run/systemd/journal")


def find_log_file(pid: int, options: Options, *, proc: Path = Path("/proc")) -> str:
    """The path of the log of the master whose proven PID is `pid`, or `journal:UNIT`; empty if it is not known.
    options: its own. Never raises, but may wait for a file system."""
    for path, descriptor in _candidates(pid, options, proc):
        if path.startswith("socket:") and (unit := find_systemd_unit(pid, proc.parent)) and _HAS_JOURNAL.is_dir():
            return f"{JOURNAL}{unit}"
        try:
            found = os.stat(path)
            if not (path.startswith("/") and PLAIN_NAME.fullmatch(path) and stat.S_ISREG(found.st_mode)):
                continue
            own = os.stat(proc / str(pid) / "fd" / descriptor) if descriptor else _seen_by(pid, path, proc)
        except OSError:
            continue
        if own is None or (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino):
            return path
    return ""


def _seen_by(pid: int, path: str, proc: Path) -> os.stat_result | None:
    """What the process sees at a path, which may be in another root directory; None if that may not be known."""
    try:
        return os.stat(f"{proc}/{pid}/root{path}")
    except PermissionError:
        return None
    except FileNotFoundError:
        if os.path.exists(f"{proc}/{pid}/root"):
            raise
        return None


def _candidates(pid: int, options: Options, proc: Path) -> Iterator[tuple[str, str]]:
    """Paths, the likeliest first, each with the descriptor that it must be the file of; empty for an option's."""
    for descriptor in ("2", "1"):
        try:
            yield os.readlink(proc / str(pid) / "fd" / descriptor), descriptor
        except OSError:
            continue
    for path in reversed(options.log_files):
        yield path, ""
