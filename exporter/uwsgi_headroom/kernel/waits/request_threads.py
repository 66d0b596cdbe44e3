"""Distinguishes the threads of a worker that serve requests from those that its application has started.

uWSGI does not list its threads. A thread that was seen waiting to accept a request serves requests: the application's
own never do. Until all of them were seen, the rest is presumed: uWSGI's thread 0 is the process's main thread, and it
starts the others at once, one after the other, with all signals blocked (core/loop.c). Threads that the application
started before, from its main thread, have other signal masks; threads that it starts later have higher ids.
"""

from __future__ import annotations

import os
import random
from itertools import islice

from uwsgi_headroom.kernel import procfs

_MOST_LISTED = 1024
_MOST_MASKS = 256
_MOST_SKIPPED = 32
_MOST_STRANGERS = 4
"""How many other threads are looked at per sample, to find out whether they serve requests after all."""

_LEAST_BLOCKED = 48
"""A mask of sigfillset(3) has 61 of 64 signals: the threading library keeps two, and two can never be blocked."""


class RequestThreads:
    """The request threads of one worker process, which has `number` of them for its whole life."""

    def __init__(self, pid: int, number: int) -> None:
        self._pid = pid
        self._number = number
        self._seen: set[int] = set()
        self._presumed: list[int] = []
        self._others: list[int] = []
        self._skip = self._skipped = 0
        self._list()

    def list_again(self) -> None:
        """List the threads of the process again: one of them has ended, or uWSGI was still starting them. If that
        happens again and again, most calls do nothing: up to 32 after each list."""
        if self._skipped < self._skip:
            self._skipped += 1
            return
        self._skip, self._skipped = min(2 * self._skip + 1, _MOST_SKIPPED), 0
        self._list()

    def _list(self) -> None:
        threads = sorted(_list_threads(self._pid))
        self._seen.intersection_update(threads)
        self._presumed = self._presume(threads) if self._number > 1 else [self._pid]
        presumed = set(self._presumed)
        self._others = [thread for thread in threads if thread not in presumed]

    def _presume(self, threads: list[int]) -> list[int]:
        if len(threads) <= self._number:
            return threads
        blocked = (thread for thread in threads[:_MOST_MASKS] if thread != self._pid and self._blocks_signals(thread))
        return [self._pid, *islice(blocked, self._number - 1)]

    def _blocks_signals(self, thread: int) -> bool:
        try:
            status = procfs.read_file(f"/proc/{self._pid}/task/{thread}/status")
        except OSError:
            return False
        _, _, after = status.partition(b"\nSigBlk:")
        return bin(int(after.split(None, 1)[0], 16)).count("1") >= _LEAST_BLOCKED if after else False

    @property
    def all_found(self) -> bool:
        """Whether every request thread is found, seen or presumed."""
        return len(self.threads) >= self._number

    @property
    def threads(self) -> list[int]:
        """The ids of the request threads: those that were seen, then presumed ones up to their number."""
        if len(self._seen) >= self._number:
            return list(self._seen)[: self._number]
        presumed = [thread for thread in self._presumed if thread not in self._seen]
        return [*self._seen, *presumed[: self._number - len(self._seen)]]

    def strangers(self, chance: random.Random) -> list[int]:
        """A few threads that may serve requests although they are not presumed to; none once all were seen."""
        if len(self._seen) >= self._number or not self._others:
            return []
        others = [thread for thread in self._others if thread not in self._seen]
        return chance.sample(others, min(_MOST_STRANGERS, len(others)))

    def note_accepting(self, thread: int) -> None:
        """Record that a thread waits to accept a request."""
        self._seen.add(thread)


def _list_threads(pid: int) -> list[int]:
    """The threads of a process, 1,024 at most; none if it has ended."""
    try:
        with os.scandir(f"/proc/{pid}/task") as folder:
            return [int(entry.name) for entry in islice(folder, _MOST_LISTED)]
    except OSError:
        return []
