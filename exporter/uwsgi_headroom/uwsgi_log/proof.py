"""Decides which lines of a server's log are true, from its readings.

The application writes to the same log, and prints what its users type, so a line alone proves nothing. There are three
proofs, each within PROOF_SECONDS of the line: the process that it names was a worker's and is gone; a counter has grown
by as much as the lines say; a state is what the line says. A PID in a line must be a worker's.

The line of a request is proven if its numbers are those of the worker with its PID: the calls of the application, or
the requests of all workers. Requests and bytes must be as many as the lines of all requests together say: where uWSGI
logs each request, a forged line is one too many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from uwsgi_headroom.reading import Reading
from uwsgi_headroom.stats.server import Snapshot, Worker
from uwsgi_headroom.uwsgi_log.messages import BY_CODE
from uwsgi_headroom.uwsgi_log.scan import Seen

PROOF_SECONDS = 5.0
"""uWSGI's master notices the end of a worker within a second, and may not answer for three; the log is read twice a
second."""

RACY = 0.99
"""The part of all requests that the log's counter has at least: uWSGI's workers add to it without a lock."""

_OF_WORKERS = ("respawns", "harakiris", "exceptions", "write_errors", "requests", "transmitted_bytes")

_FACTS_SECONDS = 0.4
"""The least time between two facts that are kept."""

_MOST_USED = 1000


class Facts(NamedTuple):
    """What is known of a server at one reading. calling: requests in service, which may already be counted as calls;
    calls: by PID, those of each application; states: the names of the proofs that are true now."""

    at: float
    counters: Mapping[str, int]
    calling: int
    calls: Mapping[int, Mapping[int, int]]
    states: frozenset[str]


class Line(Struct, frozen=True):
    """A kind of line that was read at `at`, `count` times."""

    at: float
    seen: Seen
    count: int


class Proofs:
    """Compares the lines of one server's log with its readings. One growth of a counter proves one line."""

    def __init__(self) -> None:
        self._facts: deque[Facts] = deque()
        self._pids: frozenset[int] = frozenset()
        self._ended: dict[int, float] = {}  # by PID: when it was seen to be gone
        self._used: dict[str, deque[tuple[float, int]]] = {}  # by what has grown: how much of it proved lines, and when

    def note(self, reading: Reading) -> None:
        """Take a reading into account."""
        snapshot = reading.snapshot
        if not isinstance(snapshot, Snapshot):
            return
        alive = frozenset(
            worker.pid for worker in snapshot.workers if worker.pid and not reading.process_is_missing(worker)
        )
        self._ended.update(dict.fromkeys(self._pids - alive, reading.at))
        self._pids = alive
        if self._facts and reading.at - self._facts[-1].at < _FACTS_SECONDS:
            return
        self._facts.append(_describe(reading, snapshot))
        since = reading.at - 2 * PROOF_SECONDS
        while self._facts[0].at < since:
            self._facts.popleft()
        self._ended = {pid: at for pid, at in self._ended.items() if at >= since}
        for used in self._used.values():
            while used and used[0][0] < self._facts[0].at:
                used.popleft()

    def note_requests(self, at: float, lines: int) -> None:
        """Note that so many lines of requests were read that need no proof."""
        self._use("requests", at, lines)

    def count(self, line: Line, now: float) -> int:
        """How many of a kind of line are proven by now that were not before; asked until PROOF_SECONDS after it."""
        seen, proof = line.seen, BY_CODE[line.seen.code].proof
        if (
            proof is None
            or not self._facts
            or (seen.pid and seen.pid not in self._pids and seen.pid not in self._ended)
        ):
            return 0
        match proof:
            case "pid_gone":
                ended = self._ended.get(seen.pid or 0)
                return line.count if ended is not None and abs(ended - line.at) <= PROOF_SECONDS else 0
            case "queue_full" | "no_application":
                near = (facts for facts in self._facts if abs(facts.at - line.at) <= PROOF_SECONDS)
                return line.count if any(proof in facts.states for facts in near) else 0
            case "request_line":
                return self._count_requests(line, now) if self._fits(seen) else 0
            case counter:
                # A client that leaves makes uWSGI write two kinds of lines, but a request without a call makes one.
                name = counter if counter == "uncalled" else seen.code
                proven = max(0, min(line.count, self._grown(counter) - self._used_up(name)))
                self._use(name, now, proven)
                return proven

    def _fits(self, seen: Seen) -> bool:
        """Whether the numbers in the line of a request are those of the worker that it names."""
        known = [facts.calls[pid] for facts in self._facts if (pid := seen.pid or 0) in facts.calls]
        if not seen.request or not known:
            return False
        application, calls, requests, _ = seen.request
        if application < 0:
            first, last = (self._facts[place].counters["requests"] for place in (0, -1))
            return int(RACY * first) <= requests <= last
        return known[0].get(application, 0) <= calls <= known[-1].get(application, 0)

    def _count_requests(self, line: Line, now: float) -> int:
        size = line.seen.request[3] if line.seen.request else 0
        left, bytes_left = (self._grown(name) - self._used_up(name) for name in ("requests", "transmitted_bytes"))
        proven = max(0, min(line.count, left, bytes_left // size if size else line.count))
        self._use("requests", now, proven)
        self._use("transmitted_bytes", now, proven * size)
        return proven

    def _grown(self, counter: str) -> int:
        first, last = self._facts[0], self._facts[-1]
        grown = last.counters[counter] - first.counters[counter]
        if counter == "uncalled":  # a new process counts its calls from 0 on
            return grown - first.calling if first.calls.keys() == last.calls.keys() else 0
        return grown  # a reload sets counters to 0

    def _use(self, name: str, at: float, number: int) -> None:
        if number:
            used = self._used.setdefault(name, deque(maxlen=_MOST_USED))
            before = used.pop()[1] if used and used[-1][0] == at else 0
            used.append((at, before + number))

    def _used_up(self, name: str) -> int:
        return sum(number for _, number in self._used.get(name, ()))


def _describe(reading: Reading, snapshot: Snapshot) -> Facts:
    workers = snapshot.workers
    states = {
        "queue_full": any(queue.is_full for queue in reading.listen_queues().values()),
        "no_application": any(worker.accepting and not worker.apps for worker in workers),
    }
    return Facts(
        at=reading.at,
        counters={
            **{name: sum([getattr(worker, name) or 0 for worker in workers]) for name in _OF_WORKERS},
            "cache_full": sum([cache.full or 0 for cache in snapshot.caches]),
            "uncalled": sum([_count_uncalled(worker) for worker in workers]),
        },
        calling=sum([worker.busy_threads or 0 for worker in workers]),
        calls={worker.pid: {app.app_id: app.requests or 0 for app in worker.apps} for worker in workers if worker.pid},
        states=frozenset(name for name, is_true in states.items() if is_true),
    )


def _count_uncalled(worker: Worker) -> int:
    """Completed requests that no application, no static file and no rule of routing got. 0 where uWSGI does not say so:
    it counts no calls of PHP, and without threads in its stats, no files."""
    if not worker.apps or worker.static_requests is None:
        return 0
    calls = sum([app.requests or 0 for app in worker.apps])
    return (worker.requests or 0) - calls - worker.static_requests - (worker.routed_requests or 0)
