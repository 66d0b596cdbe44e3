"""Recognizes a pool of connections that is too small: a fixed number of threads works, and the others wait.

A lock lets one thread at a time through, and a pool of k lets k. So while threads of a worker wait for a lock of the
application, the number of its threads that wait for something else, such as a backend, is k, again and again, and they
are now these and now those. Without a pool that number varies from sample to sample, or they are always the same
threads. Those that wait for a pool wait each at an address of its own, as in every condition variable of Python. If
several wait at one address, that is a lock, and who does something else has it, or does not need it any more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from uwsgi_headroom.stats.server import Worker

LEAST_SAMPLES = 10
"""So many samples with threads that wait for a lock have to be there."""

MOSTLY = 0.6
"""The part of these samples that have to show the same number: a thread may compute between two queries."""

SMALLEST = 2

_REMEMBERED = 60

_NO_POOL = 0


class Pools:
    """Counts, for each worker of one server, in how many samples so many threads waited for a backend."""

    def __init__(self) -> None:
        self._seen: dict[int, Counter[int]] = defaultdict(Counter)
        self._threads: dict[int, set[int]] = defaultdict(set)

    def note(self, backends: Mapping[int, Collection[int]], locks: Mapping[int, Collection[int | None]]) -> None:
        """Add a sample of all threads, by worker id: those that wait for a backend; and where threads wait for a lock,
        None if that is not known."""
        for worker_id, places in locks.items():
            seen, working = self._seen[worker_id], backends.get(worker_id, ())
            known = [place for place in places if place is not None]
            seen[len(working) if len(known) == len(set(known)) else _NO_POOL] += 1
            self._threads[worker_id].update(working)
            if seen.total() > _REMEMBERED:
                self._seen[worker_id] = Counter({number: times // 2 for number, times in seen.items() if times > 1})
                self._threads[worker_id] = set(working)

    def sizes(self) -> dict[int, int]:
        """The size of the pool in each worker that seems to have one."""
        found = {}
        for worker_id, seen in self._seen.items():
            total = seen.total()
            number, times = seen.most_common(1)[0] if total else (0, 0)
            is_steady = total >= LEAST_SAMPLES and times >= MOSTLY * total
            if is_steady and SMALLEST <= number < len(self._threads[worker_id]):
                found[worker_id] = number
        return found

    def forget_ended(self, workers: Sequence[Worker]) -> None:
        """Forget the workers that have no process."""
        if self._seen:  # of most servers, nothing
            for worker_id in self._seen.keys() - {worker.worker_id for worker in workers if worker.pid}:
                del self._seen[worker_id], self._threads[worker_id]
