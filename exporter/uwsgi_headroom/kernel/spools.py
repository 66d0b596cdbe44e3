"""Counts the tasks that wait in the directories of spoolers.

uWSGI's document has the tasks that a spooler has processed, not those that wait. A task is one file in its directory,
whose name begins with `uwsgi_spoolfile_on_` (core/spooler.c); it is removed once it is processed. A task for later
(`at`) has that time as the file's time of modification, and does not count as one that waits. The name of the directory
comes from a document; names and times are read there, and no file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice

from uwsgi_headroom.kernel.aside import DIRECT, Asks, NotYetError
from uwsgi_headroom.stats.server import Snapshot

SECONDS = 10.0
"""The shortest time between two counts, of monotonic seconds."""

MOST = 5000
"""Of larger directories, this many entries are counted."""

MOST_DIRECTORIES = 16
"""Spoolers beyond this number are not counted: uWSGI has one process for each, so there are few."""

_PREFIX = "uwsgi_spoolfile_on_"


class Spools:
    """Counts tasks of one server repeatedly, and keeps the counts in between."""

    def __init__(self, asks: Asks = DIRECT) -> None:
        self._asks = asks
        self._at = float("-inf")
        self._directories: tuple[str, ...] = ()
        self._counts: Mapping[str, int] = {}

    def read(self, master_pid: int, snapshot: Snapshot, now: float) -> Mapping[str, int]:
        """The tasks in each spooler's directory, by its name in the document; the same object until they are counted
        again. now: monotonic seconds."""
        directories = tuple(dict.fromkeys(spooler.directory for spooler in snapshot.spoolers))[:MOST_DIRECTORIES]
        if directories != self._directories or now - self._at >= SECONDS:
            try:
                self._counts = self._asks.ask(count_all, master_pid, directories)
            except NotYetError:
                return self._counts
            except OSError:  # a file system that does not answer
                self._counts = {}
            self._at, self._directories = now, directories
        return self._counts


def count_all(master_pid: int, directories: tuple[str, ...]) -> Mapping[str, int]:
    """The tasks in each directory that may be listed; a question for `aside`."""
    counted = ((name, _count(master_pid, name)) for name in directories)
    return {name: tasks for name, tasks in counted if tasks is not None}


def _count(master_pid: int, directory: str) -> int | None:
    """The tasks in a directory as the master sees it; None if it may not be listed."""
    base = "root" if directory.startswith("/") else "cwd/"
    if not directory or "\0" in directory:
        return None
    try:
        with os.scandir(f"/proc/{master_pid}/{base}{directory}") as entries:
            now = time.time()
            return sum(_tasks(entry, now) for entry in islice(entries, MOST))
    except (OSError, ValueError):
        return None


def _tasks(entry: os.DirEntry[str], now: float) -> int:
    """How many tasks an entry is. With `spooler-ordered`, a directory whose name is a number has tasks too."""
    if entry.name.isdecimal() and entry.is_dir(follow_symlinks=False):
        with suppress(OSError), os.scandir(entry.path) as inner:
            return sum(_is_due(each, now) for each in islice(inner, MOST))
    return _is_due(entry, now)


def _is_due(entry: os.DirEntry[str], now: float) -> bool:
    if not entry.name.startswith(_PREFIX):
        return False
    try:
        return entry.stat(follow_symlinks=False).st_mtime <= now
    except OSError:  # it was processed a moment ago
        return False
