"""Recognizes who holds what threads wait for as for a lock: a request, all processes together, or no request at all.

The holder of a lock of one process is another thread of it. If that thread serves a request, a sample of the worker
finds it at something else, such as a query. If nothing but waiting threads is found again and again, no request holds
what they wait for. They wait for a thread of the application's own: one of an executor, the event loop of a client
library, the consumer of a queue; or for each other, in a deadlock.

A lock that several processes share is no lock of one process: the kernel is asked with another operation for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from uwsgi_headroom.record import Holder

LEAST_WAITS = 20
"""So many waits of threads have to be seen."""

UNHELD = 0.8
"""The part of the waits in which no request can hold the lock. Between two holders of a lock that changes hands all the
time, a sample that looks at one thread after the other finds none in (1 - 1/n)^n of the cases, or 0.37."""

SHARED = 0.5
"""The part of the waits that are for locks of several processes, from which on most are."""

_REMEMBERED = 400.0
"""Beyond so many waits, older ones count for half."""


class Holders:
    """Counts the waits of the threads of one server."""

    def __init__(self) -> None:
        self._waits = self._shared = self._unheld = 0.0

    def note(self, waiting: Mapping[int, int], at_work: Collection[int], shared: int) -> None:
        """Add a sample of all threads. waiting: how many threads wait for a lock of their process, by worker id;
        at_work: the ids of the workers with a thread in service that does anything else; shared: how many threads wait
        for locks of several processes."""
        self._waits += sum(waiting.values()) + shared
        self._shared += shared
        self._unheld += sum([number for worker_id, number in waiting.items() if worker_id not in at_work])
        if self._waits > _REMEMBERED:
            self._waits, self._shared, self._unheld = self._waits / 2, self._shared / 2, self._unheld / 2

    def find(self) -> Holder | None:
        """Who holds what most threads wait for; None if too few waits were seen."""
        if self._waits < LEAST_WAITS:
            return None
        if self._shared >= SHARED * self._waits:
            return "processes"
        return "thread" if self._unheld >= UNHELD * self._waits else "request"
