"""Recognizes what requests wait for as for a lock, and who holds it.

* `Pools`: a pool of connections that is too small. A fixed number of threads works, and the others wait.
* `Holders`: whether a request holds it, all processes together, or no request at all.
* `UwsgiLocks`: the mule that holds a lock of `uwsgi.lock()`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from uwsgi_headroom.kernel.namespaces import read_pid_numbers
from uwsgi_headroom.kernel.processes import list_children
from uwsgi_headroom.record import Holder, LockHolder
from uwsgi_headroom.stats.server import Snapshot, Worker

LEAST_OF_A_POOL = 10
"""So many samples with threads that wait for a lock have to be there."""

MOSTLY = 0.6
"""The part of these samples that have to show the same number: a thread may compute between two queries."""

SMALLEST = 2

_REMEMBERED_OF_POOLS = 60

_NO_POOL = 0


class Pools:
    """Counts, for each worker of one server, in how many samples so many threads waited for a backend.

    A lock lets one thread at a time through, and a pool of k lets k. So while threads of a worker wait for a lock of
    the application, the number of its threads that wait for something else, such as a backend, is k, again and again,
    and they are now these and now those. Without a pool that number varies, or they are always the same threads. Each
    that waits for a pool waits at an address of its own, as in every condition variable of Python. If several wait at
    one address, that is a lock, and who does something else has it, or does not need it any more.
    """

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
            if seen.total() > _REMEMBERED_OF_POOLS:
                self._seen[worker_id] = Counter({number: times // 2 for number, times in seen.items() if times > 1})
                self._threads[worker_id] = set(working)

    def sizes(self) -> dict[int, int]:
        """The size of the pool in each worker that seems to have one."""
        found = {}
        for worker_id, seen in self._seen.items():
            total = seen.total()
            for number, times in seen.most_common(1):
                is_steady = total >= LEAST_OF_A_POOL and times >= MOSTLY * total
                if is_steady and SMALLEST <= number < len(self._threads[worker_id]):
                    found[worker_id] = number
        return found

    def forget_ended(self, workers: Sequence[Worker]) -> None:
        """Forget the workers that have no process."""
        if self._seen:  # of most servers, nothing
            for worker_id in self._seen.keys() - {worker.worker_id for worker in workers if worker.pid}:
                del self._seen[worker_id], self._threads[worker_id]


LEAST_WAITS = 20
"""So many waits of threads have to be seen."""

UNHELD = 0.8
"""The part of the waits in which no request can hold the lock. Between holders of a lock that changes hands all the
time, a sample that looks at one thread after the other finds none in (1 - 1/n)^n of the cases, or 0.37."""

ALWAYS = 0.8
"""The part of the samples in which the holder is where it mostly is: it has the lock before and after as well."""

SHARED = 0.5
"""The part of the waits that are for locks of several processes, from which on most are."""

TOGETHER = 0.1
"""The part of the waits beside others of the same worker, up to which threads that wait at one address do so by
chance."""

_REMEMBERED = 400.0
"""Beyond so many waits, older ones count for half."""


class Holders:
    """Counts the waits of the threads of one server.

    The holder of a lock of one process is another thread of it. If that thread serves a request, a sample of the worker
    finds it at something else, such as a query. If nothing but waiting threads is found again and again, no request
    holds what they wait for. They wait for a thread of the application's own: one of an executor, the event loop of a
    client library, the consumer of a queue; or for each other, in a deadlock.

    Threads that wait for one lock wait at one address. If each waits at its own, as in a client library's condition
    variables, they do not queue for a lock, whatever other requests do. A lock that several processes share is no lock
    of one process: the kernel is asked with another operation for it.
    """

    def __init__(self) -> None:
        self._waits = self._shared = self._unheld = self._beside = self._together = 0.0
        self._behind: Counter[str] = Counter()

    def note(
        self,
        waiting: Mapping[int, Sequence[int | None]],
        at_work: Collection[int],
        shared: int,
        backends: Mapping[int, Sequence[str]] = {},
    ) -> None:
        """Add a sample of all threads. waiting: where threads wait for a lock of their process, None if that is not
        known, by worker id; at_work: the ids of the workers with a thread in service that does anything else; shared:
        how many threads wait for locks of several processes; backends: the addresses for which threads wait, by worker
        id."""
        self._waits += sum(map(len, waiting.values())) + shared
        self._shared += shared
        self._unheld += sum([len(places) for worker_id, places in waiting.items() if worker_id not in at_work])
        for worker_id, places in waiting.items():
            addresses = backends.get(worker_id, ())
            self._behind[""] += 1
            if len(addresses) == 1:
                self._behind[addresses[0]] += 1
            known = Counter(place for place in places if place is not None)
            self._beside += known.total() if known.total() > 1 else 0
            self._together += sum([number for number in known.values() if number > 1])
        if self._waits > _REMEMBERED:
            self._waits, self._shared, self._unheld = self._waits / 2, self._shared / 2, self._unheld / 2
            self._beside, self._together = self._beside / 2, self._together / 2
            self._behind = Counter({each: times // 2 for each, times in self._behind.items() if times > 1})

    @property
    def behind(self) -> str:
        """The backend for which exactly one thread of a worker waits whenever others wait for a lock: that is where the
        holder of the lock is. Empty if there is none."""
        least = max(LEAST_WAITS, ALWAYS * self._behind[""])
        return next((each for each, times in self._behind.items() if each and times >= least), "")

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


LEAST_SAMPLES = 20.0
"""So many samples have to be seen in which requests wait for a lock of all processes."""

MOST_OF_THEM = 0.5
"""The part of these samples from which on a process counts as what requests wait for."""

_REMEMBERED_OF_MULES = 200.0
"""Beyond so many samples, older ones count for half."""

_NAME = re.compile(r"user (\d{1,6})")


class UwsgiLocks:
    """Counts the holders of the locks of one server.

    Workers and mules share these locks (a spooler may not take one: uWSGI raises ValueError), and a dump of the workers
    does not show what a mule does. uWSGI's document has the PID of each holder, or 0 for a moment if the lock has just
    changed hands. So the process counts that most samples have. It has to be a child of the master here: a document may
    name any.
    """

    def __init__(self) -> None:
        self._samples = 0.0
        self._held: Counter[tuple[int, int]] = Counter()  # by the lock's number and the holder's PID

    def note(self, locks: Mapping[str, int] | None) -> None:
        """Add a sample in which requests wait for such a lock."""
        if self._samples >= _REMEMBERED_OF_MULES:
            self._samples /= 2
            self._held = Counter({key: number // 2 for key, number in self._held.items() if number > 1})
        self._samples += 1
        for name, pid in (locks or {}).items():
            if pid and (lock := _NAME.fullmatch(name)):
                self._held[int(lock[1]), pid] += 1

    def find(self, master_pid: int, snapshot: Snapshot) -> LockHolder | None:
        """The mule that holds one of them most of the time; None if there is none. snapshot: with the PIDs of its
        workers here; those of its locks are as in uWSGI's own PID namespace, such as that of a container."""
        workers = {worker.pid for worker in snapshot.workers}
        for (lock, pid), number in self._held.most_common(1):
            if self._samples < LEAST_SAMPLES or number < MOST_OF_THEM * self._samples:
                return None
            for child in list_children(master_pid):
                if child not in workers and (read_pid_numbers(child) or (child,))[-1] == pid:
                    return LockHolder(child, lock, number / self._samples)
        return None
