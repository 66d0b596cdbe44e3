"""Finds how much of the time locks are held: an application's, by the address that a waiter shows, and those of files,
from the kernel's list.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from uwsgi_headroom.kernel import procfs
from uwsgi_headroom.kernel.waits.memory import read_pieces
from uwsgi_headroom.record import LockUse

_MOST_LOCKS = 8
"""How many addresses are remembered for a worker."""

_PROOFS = 2
"""In how many samples a lock has to be waited for, and free without anyone waiting, until it counts."""

_STUCK_SECONDS = 30.0
"""A lock that no thread was seen to pass for so long does not count."""

_FORGET_SECONDS = {False: 60.0, True: 600.0}
"""After how long without a waiter an address is forgotten, by whether it counts: its memory may have another use."""

_MOST_WAITERS = 65_536
"""More threads than that cannot wait at a semaphore: the eight bytes are not one."""

_RECENT = 0.02
"""The weight of a sample in the recent use by which the lock that is used most is chosen."""

_WORD = struct.Struct("<II")  # the value, and the number of threads that wait


Word: TypeAlias = tuple[int, int]
"""What is in a semaphore: its value, and the number of threads that wait."""


def read_semaphores(*wanted: tuple[int, Sequence[int]]) -> dict[int, dict[int, Word]]:
    """The words of the semaphores at these addresses, by PID and address; one where the process has no memory is left
    out. A question for `aside`. Raises RefusedToReadError."""
    found = {}
    for pid, addresses in wanted:
        pieces = zip(addresses, read_pieces(pid, [(address, _WORD.size) for address in addresses]), strict=True)
        found[pid] = {address: _WORD.unpack(piece) for address, piece in pieces if piece is not None}
    return found


class _Lock(Struct):
    """What is known of an address. waited_at, passed_at: monotonic times at which a thread was last seen to wait, and
    to go on. threads: those that were seen to wait there last. counts: whether it is a lock for certain. recent: its
    recent use."""

    waited_at: float
    passed_at: float = float("-inf")
    threads: frozenset[int] = frozenset()
    waited: int = 0
    free: int = 0
    counts: bool = False
    recent: float = 0.0
    held: bool | None = None


L = TypeVar("L", "_Lock", "_FileLock")


class WorkerLocks:
    """The locks of the application in one worker process. is_read: whether its memory may be read.

    A lock of CPython (`threading.Lock`, `RLock`, those of C extensions that take CPython's) is, up to CPython 3.12, a
    semaphore of the C library (of 3.13, only an `RLock`; a `Lock` is a PyMutex, and hides its address): its first four
    bytes are 1 while it is free and 0 while it is held, and the next four count the threads that wait (`struct new_sem`
    in glibc's sysdeps/nptl/internaltypes.h). A thread that waits for it shows the address in its system call. From then
    on, each sample of the worker reads these eight bytes, if that is allowed; if not, who waits there still says when
    the lock is held for certain.

    Not every semaphore is a lock. `threading.Condition`, and with it queues, events and `threading.Semaphore`, makes
    one for each thread that waits: nobody else ever waits at its address. So an address counts once two threads wait at
    it at the same time, or once it was waited for and free again and again. A lock that no thread was seen to pass for
    half a minute does not count either: it is stuck, and its share says nothing about requests that pass it.
    """

    def __init__(self, *, is_read: bool) -> None:
        self._is_read = is_read
        self._locks: dict[int, _Lock] = {}

    @property
    def addresses(self) -> tuple[int, ...]:
        """Where the locks are that are remembered."""
        return tuple(self._locks)

    def remember(self, looks: Mapping[int, int | None], now: float) -> None:
        """Add addresses that are new, those with the most waiters first; the least certain ones make room. looks: the
        threads of the sample, and for the lock at which address each waits, None if for none."""
        waiting = Counter(address for address in looks.values() if address is not None)
        new = [address for address, _ in waiting.most_common() if address not in self._locks]
        for address in new[:_MOST_LOCKS]:
            if len(self._locks) >= _MOST_LOCKS:
                least = min(self._locks, key=self._rank)
                if self._locks[least].waited_at >= now or self._locks[least].counts:
                    return
                del self._locks[least]
            self._locks[address] = _Lock(now)

    def look(
        self, looks: Mapping[int, int | None], now: float, words: Mapping[int, Word] | None, *, are_all: bool
    ) -> LockUse | None:
        """Look at the remembered locks at the time of a sample; returns that of the lock that is used most, None if
        none is known. looks: as for `remember`, and whether those are all threads. words: what was read at `addresses`,
        None if nothing could be."""
        for address, lock in list(self._locks.items()):
            threads = frozenset(thread for thread, place in looks.items() if place == address)
            if threads:
                lock.waited_at = now
                lock.waited += 1
            if (lock.threads - threads).intersection(looks):
                lock.passed_at = now
            lock.threads = lock.threads.difference(looks) | threads
            word = None if words is None else words.get(address)
            if not self._note_value(lock, threads, word, now, reads=words is not None):
                del self._locks[address]
        return self.busiest(now, are_all=are_all)

    def rest(self, now: float) -> LockUse | None:
        """The same for a worker that serves no request: nobody holds its locks."""
        for address, lock in list(self._locks.items()):
            lock.threads, lock.passed_at, lock.held = frozenset(), now, False if self._is_read else None
            lock.recent -= _RECENT * lock.recent
            if now - lock.waited_at > _FORGET_SECONDS[lock.counts]:
                del self._locks[address]
        return self.busiest(now, are_all=True)

    def _rank(self, address: int) -> tuple[bool, float, float]:
        lock = self._locks[address]
        return lock.counts, lock.waited_at, lock.recent

    def _note_value(self, lock: _Lock, threads: frozenset[int], value: Word | None, now: float, *, reads: bool) -> bool:
        """Note what was read of a lock; returns whether it is still of interest."""
        lock.held = None
        enough = len(threads) >= _PROOFS
        if reads:
            if value is None or value[0] > 1 or value[1] > _MOST_WAITERS:
                return False  # unmapped, freed, or something else
            lock.held = value[0] == 0
            if not lock.held:
                lock.passed_at = now
                lock.free += not threads
            enough = enough and value[1] >= _PROOFS
        lock.counts = lock.counts or enough or (lock.free >= _PROOFS and lock.waited >= _PROOFS)
        lock.recent += _RECENT * ((lock.held or bool(threads)) - lock.recent)
        return now - lock.waited_at <= _FORGET_SECONDS[lock.counts]

    def busiest(self, now: float, *, are_all: bool) -> LockUse | None:
        """The use of the lock that is used most, as of the last look; None if none is known."""
        lock = _find_busiest((lock for lock in self._locks.values() if lock.counts), now)
        if lock is None or (lock.held is None and not are_all):  # a thread that was not looked at may wait for it
            return None
        return LockUse(bool(lock.threads), lock.held)


def _find_busiest(locks: Iterable[L], now: float) -> L | None:
    """The one that is used most, of those that a thread was seen to pass lately."""
    known = (lock for lock in locks if now - lock.passed_at < _STUCK_SECONDS)
    return max(known, key=lambda lock: lock.recent, default=None)


PATH = "/proc/locks"

_MOST_BYTES = 64 << 10
"""Beyond it, some thousand locks, nothing is known: reading the list holds up every process that takes a lock."""

_MOST_OF_THE_TIME = 0.005
"""The part of a CPU that reading may take."""

_UNKNOWN_SECONDS = 1.0
"""How often the list is read as long as no thread is seen to wait for a file's lock."""

_MOST_FILES = 4
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
    listed: Listed = _NOT_LISTED
    recent: float = 0.0


class FileLocks:
    """The locks of files (flock, fcntl) for which the workers of one server wait.

    `/proc/locks` lists the locks of all processes, and below each the processes that wait for it (proc_locks(5)); it
    needs no right. A file for which a worker waited is remembered, so that later samples see whether its lock is held.
    """

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
        try:
            text = procfs.read_file(PATH, most=_MOST_BYTES)
        except OSError:  # hidden, or too long
            self._files.clear()
            self._not_before = now + 60.0
            return None
        went_on = threads is not None and self._threads is not None and bool(self._threads - threads)
        self._threads = threads
        self._update(parse_locks(text, self._files.keys(), frozenset(pids)), now, went_on=went_on)
        self._not_before = now + (time.thread_time() - began) / _MOST_OF_THE_TIME
        lock = _find_busiest(self._files.values(), now)
        return LockUse(bool(lock.listed.waiters), lock.listed.held) if lock else None

    def rest(self) -> LockUse | None:
        """The same while no worker serves a request."""
        now = self._clock()
        for file, lock in list(self._files.items()):
            lock.passed_at = now
            if now - lock.waited_at > _FORGET_SECONDS[True]:
                del self._files[file]
        return LockUse(False, False) if self._files else None

    def _update(self, found: dict[File, Listed], now: float, *, went_on: bool) -> None:
        for file, listed in found.items():
            if file not in self._files and listed.waiters and len(self._files) < _MOST_FILES:
                self._files[file] = _FileLock(now)
        for file, lock in list(self._files.items()):
            before, lock.listed = lock.listed, found.get(file, _NOT_LISTED)
            held, waiters, pids, _ = lock.listed
            # Threads of one process look alike in the list. Processes that come do not show that one went on.
            if not held or waiters < before.waiters or pids[: len(before.pids)] != before.pids or went_on:
                lock.passed_at = now
            if waiters:
                lock.waited_at = now
            lock.recent += _RECENT * (held - lock.recent)
            if now - lock.waited_at > _FORGET_SECONDS[True]:
                del self._files[file]

    def find_holder(self) -> int | None:
        """The PID for which most threads waited at the last look."""
        listed = max((lock.listed for lock in self._files.values()), key=lambda each: each.waiters, default=_NOT_LISTED)
        return listed.holder if listed.waiters else None


def parse_locks(text: bytes, known: Collection[File], pids: Collection[int]) -> dict[File, Listed]:
    """What the list says of each file that is known, or for whose lock one of these processes waits. Lines of another
    form are left out."""
    found: dict[File, Listed] = {}
    before = -1
    for line in text.splitlines():
        words = line.split()
        is_blocked = words[1:2] == [b"->"]
        if is_blocked:
            del words[1]
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
