"""Finds how much of the time the locks of an application are held: from outside, by the address that a waiter shows.

A lock of CPython (`threading.Lock`, `RLock`, those of C extensions that take CPython's) is, up to CPython 3.12, a
semaphore of the C library (of 3.13, only an `RLock`; a `Lock` is a PyMutex, and hides its address): its first four
bytes are 1 while it is free and 0 while it is held, and the next four count the threads that wait (`struct new_sem` in
glibc's sysdeps/nptl/internaltypes.h). A thread that waits for it shows the address in its system call. From then on,
each sample of the worker reads these eight bytes, if that is allowed; and if it is not, who waits at the address still
says when the lock is held for certain.

Not every semaphore is a lock. `threading.Condition`, and with it queues, events and `threading.Semaphore`, makes one
for each thread that waits: nobody else ever waits at its address. So an address counts once two threads wait at it at
the same time, or once it was waited for and free again and again. A lock that no thread was seen to pass for half a
minute does not count either: it is stuck, and its share of the time says nothing about the requests that pass it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

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


def read_semaphores(pid: int, addresses: Sequence[int]) -> dict[int, Word]:
    """The words of the semaphores at these addresses; one where the process has no memory is left out. Raises
    RefusedToReadError."""
    pieces = read_pieces(pid, [(address, _WORD.size) for address in addresses])
    return {address: _WORD.unpack(piece) for address, piece in zip(addresses, pieces, strict=True) if piece is not None}


def read_all_semaphores(wanted: Sequence[tuple[int, Sequence[int]]]) -> dict[int, dict[int, Word]]:
    """The same of several processes, by PID; a question for `aside`. Raises RefusedToReadError."""
    return {pid: read_semaphores(pid, addresses) for pid, addresses in wanted}


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


class WorkerLocks:
    """The locks of the application in one worker process. is_read: whether its memory may be read."""

    def __init__(self, *, is_read: bool) -> None:
        self._is_read = is_read
        self._locks: dict[int, _Lock] = {}

    def __bool__(self) -> bool:
        return bool(self._locks)

    @property
    def addresses(self) -> tuple[int, ...]:
        """Where the locks are that are remembered."""
        return tuple(self._locks)

    def remember(self, waiting: Mapping[int, Collection[int]], now: float) -> None:
        """Add addresses that are new, those with the most waiters first; the least certain ones make room."""
        new = [address for address in waiting if address not in self._locks]
        for address in sorted(new, key=lambda address: len(waiting[address]), reverse=True)[:_MOST_LOCKS]:
            if len(self._locks) >= _MOST_LOCKS:
                least = min(self._locks, key=self._rank)
                if self._locks[least].waited_at >= now or self._locks[least].counts:
                    return
                del self._locks[least]
            self._locks[address] = _Lock(now)

    def look(
        self,
        waiting: Mapping[int, Collection[int]],
        looked_at: Collection[int],
        now: float,
        words: Mapping[int, Word] | None,
        *,
        are_all: bool,
    ) -> LockUse | None:
        """Look at the remembered locks at the time of a sample; returns that of the lock that is used most, None if
        none is known. waiting: the threads that wait, by the address of the lock; looked_at: the threads of the sample,
        and whether those are all. words: what was read at `addresses`, None if nothing could be."""
        for address, lock in list(self._locks.items()):
            threads = frozenset(waiting.get(address, ()))
            self._note_waiters(lock, threads, looked_at, now)
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

    def _note_waiters(self, lock: _Lock, threads: frozenset[int], looked_at: Collection[int], now: float) -> None:
        if threads:
            lock.waited_at = now
            lock.waited += 1
        if (lock.threads - threads).intersection(looked_at):
            lock.passed_at = now
        lock.threads = lock.threads.difference(looked_at) | threads

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
        known = [lock for lock in self._locks.values() if lock.counts and now - lock.passed_at < _STUCK_SECONDS]
        if not known:
            return None
        lock = max(known, key=lambda lock: lock.recent)
        if lock.held is None and not are_all:
            return None  # a thread that was not looked at may wait for it
        return LockUse(bool(lock.threads), lock.held)
