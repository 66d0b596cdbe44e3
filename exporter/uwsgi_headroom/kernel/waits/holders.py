"""Recognizes who holds what threads wait for as for a lock: a request, all processes together, or no request at all.

The holder of a lock of one process is another thread of it. If that thread serves a request, a sample of the worker
finds it at something else, such as a query. If nothing but waiting threads is found again and again, no request holds
what they wait for. They wait for a thread of the application's own: one of an executor, the event loop of a client
library, the consumer of a queue; or for each other, in a deadlock.

Threads that wait for one lock wait at one address. If each waits at its own, as in the condition variables of a client
library, they do not queue for a lock, whatever other requests do meanwhile.

A lock that several processes share is no lock of one process: the kernel is asked with another operation for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from uwsgi_headroom.record import Holder

LEAST_WAITS = 20
"""So many waits of threads have to be seen."""

UNHELD = 0.8
"""The part of the waits in which no request can hold the lock. Between two holders of a lock that changes hands all the
time, a sample that looks at one thread after the other finds none in (1 - 1/n)^n of the cases, or 0.37."""

SHARED = 0.5
"""The part of the waits that are for locks of several processes, from which on most are."""

TOGETHER = 0.1
"""The part of the waits beside others of the same worker, up to which threads that wait at one address do so by
chance."""

_REMEMBERED = 400.0
"""Beyond so many waits, older ones count for half."""


class Holders:
    """Counts the waits of the threads of one server."""

    def __init__(self) -> None:
        self._waits = self._shared = self._unheld = self._beside = self._together = 0.0

    def note(self, waiting: Mapping[int, Sequence[int | None]], at_work: Collection[int], shared: int) -> None:
        """Add a sample of all threads. waiting: where threads wait for a lock of their process, None if that is not
        known, by worker id; at_work: the ids of the workers with a thread in service that does anything else; shared:
        how many threads wait for locks of several processes."""
        self._waits += sum(map(len, waiting.values())) + shared
        self._shared += shared
        self._unheld += sum([len(places) for worker_id, places in waiting.items() if worker_id not in at_work])
        for places in waiting.values():
            known = Counter(place for place in places if place is not None)
            self._beside += known.total() if known.total() > 1 else 0
            self._together += sum([number for number in known.values() if number > 1])
        if self._waits > _REMEMBERED:
            self._waits, self._shared, self._unheld = self._waits / 2, self._shared / 2, self._unheld / 2
            self._beside, self._together = self._beside / 2, self._together / 2

    def find(self) -> Holder | None:
        """Who holds what most threads wait for; None if too few waits were seen."""
        if self._waits < LEAST_WAITS:
            return None
        if self._shared >= SHARED * self._waits:
            return "processes"
        if self._unheld >= UNHELD * self._waits:
            return "thread"
        do_not_queue = self._beside >= LEAST_WAITS and self._together <= TOGETHER * self._beside
        return "nobody" if do_not_queue else "request"
