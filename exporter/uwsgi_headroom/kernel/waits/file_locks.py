"""Finds how much of the time a file's lock (flock, fcntl) is held, from the kernel's list, which needs no right.

`/proc/locks` lists the locks of all processes, and below each the processes that wait for it (proc_locks(5)). The file
for which a worker waited is remembered, so that later samples see whether anyone holds its lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NamedTuple

from msgspec import Struct

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.record import LockUse

PATH = "/proc/locks"

_MOST_BYTES = 64 << 10
"""Beyond it, some thousand locks, nothing is known: reading the list holds up every process that takes a lock."""

_MOST_OF_THE_TIME = 0.005
"""The part of a CPU that reading may take."""

_UNKNOWN_SECONDS = 1.0
"""How often the list is read as long as no thread is seen to wait for a file's lock."""

_MOST_FILES = 4
_STUCK_SECONDS, _FORGET_SECONDS = 30.0, 600.0
_RECENT = 0.02

_LEAST_WORDS = 8

File = tuple[bytes, bytes]
"""The kind of the lock and the file, as `FLOCK` and `fd:01:4711`: device and inode."""


class Listed(NamedTuple):
    """What the list says of a file's lock. held: whether others have to wait; waiters: how many threads of the workers
    wait; pids: of those that hold it or wait, in the order of the list; holder: the one for which a worker waits, as
    the list has it, None if it names no process (the lock of an open file)."""

    held: bool
    waiters: int
    pids: tuple[int, ...]
    holder: int | None = None


_NOT_LISTED = Listed(False, 0, ())


class _FileLock(Struct):
    waited_at: float
    passed_at: float = float("-inf")
    waiters: int = 0
    pids: tuple[int, ...] = ()
    held: bool = False
    holder: int | None = None
    recent: float = 0.0


class FileLocks:
    """The locks of files for which the workers of one server wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._files: dict[File, _FileLock] = {}
        self._not_before = float("-inf")
        self._look_at = float("-inf")
        self._threads: frozenset[int] | None = None  # that waited at the last look

    def look(
        self, pids: Collection[int], *, is_waiting: bool, is_seen: bool, threads: frozenset[int] | None = None
    ) -> LockUse | None:
        """The lock that is used most, None if none is known. pids: of the workers. is_waiting: whether a thread is seen
        to wait for a file's lock; is_seen: whether that can be seen. threads: all that wait, None if some were not
        looked at."""
        now = self._clock()
        if not self._files and not is_waiting and (is_seen or now < self._look_at):
            return None
        if now < self._not_before:
            return None
        self._look_at = now + _UNKNOWN_SECONDS
        began = time.thread_time()
        text = _read()
        if text is None:
            self._files.clear()
            self._not_before = now + 60.0
            return None
        went_on = threads is not None and self._threads is not None and bool(self._threads - threads)
        self._threads = threads
        self._update(parse_locks(text, self._files.keys(), frozenset(pids)), now, went_on=went_on)
        self._not_before = now + (time.thread_time() - began) / _MOST_OF_THE_TIME
        return self._busiest(now)

    def rest(self) -> LockUse | None:
        """The same while no worker serves a request."""
        now = self._clock()
        for file, lock in list(self._files.items()):
            lock.passed_at = now
            if now - lock.waited_at > _FORGET_SECONDS:
                del self._files[file]
        return LockUse(False, False) if self._files else None

    def _update(self, found: dict[File, Listed], now: float, *, went_on: bool) -> None:
        for file, listed in found.items():
            if file not in self._files and listed.waiters and len(self._files) < _MOST_FILES:
                self._files[file] = _FileLock(now)
        for file, lock in list(self._files.items()):
            held, waiters, pids, holder = found.get(file, _NOT_LISTED)
            # Threads of one process look alike in the list. Processes that come do not show that one went on.
            if not held or waiters < lock.waiters or pids[: len(lock.pids)] != lock.pids or went_on:
                lock.passed_at = now
            if waiters:
                lock.waited_at = now
            lock.held, lock.waiters, lock.pids, lock.holder = held, waiters, pids, holder
            lock.recent += _RECENT * (held - lock.recent)
            if now - lock.waited_at > _FORGET_SECONDS:
                del self._files[file]

    def _busiest(self, now: float) -> LockUse | None:
        known = [lock for lock in self._files.values() if now - lock.passed_at < _STUCK_SECONDS]
        if not known:
            return None
        lock = max(known, key=lambda lock: lock.recent)
        return LockUse(bool(lock.waiters), lock.held)

    def find_holder(self) -> int | None:
        """The PID for which most threads waited at the last look."""
        waited = max(self._files.values(), key=lambda lock: lock.waiters, default=None)
        return waited.holder if waited and waited.waiters else None


def _read() -> bytes | None:
    """The kernel's list; None if it is hidden or too long."""
    with suppress(OSError):
        return procfs.read_file(PATH, most=_MOST_BYTES)
    return None


def parse_locks(text: bytes, known: Collection[File], pids: Collection[int]) -> dict[File, Listed]:
    """What the list says of each file that is known, or for whose lock one of these processes waits. Lines of another
    form are left out."""
    found: dict[File, Listed] = {}
    before = -1
    for line in text.splitlines():
        words = line.split()
        if words[1:2] == [b"->"]:
            is_blocked = True
            del words[1]
        else:
            is_blocked = False
        if len(words) < _LEAST_WORDS or not words[4].removeprefix(b"-").isdigit():
            continue
        file = words[1], words[5]
        held, waiters, everyone, holder = found.get(file, _NOT_LISTED)
        pid = int(words[4])
        if not is_blocked:
            before = pid
        elif holder is None and before > 0 and pid in pids:  # below the lock that it waits for
            holder = before
        is_held = held or is_blocked or words[3] == b"WRITE"
        found[file] = Listed(is_held, waiters + (is_blocked and pid in pids), (*everyone, pid), holder)
    return {file: listed for file, listed in found.items() if listed.waiters or file in known}
