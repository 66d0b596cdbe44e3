"""Finds out which lines of the log something else agrees with: a counter of uWSGI's, a process that is gone, the
kernel.

The application can write any line into the log, so a line alone proves nothing. It counts as proven when, within
AGREE_SECONDS before or after it, what it claims is also seen where the application's users cannot write. One growth
of a counter proves one line, not a thousand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from uwsgi_headroom.kernel.backlogs import read_passive_opens
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import is_tcp
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.uwsgi_log.messages import BY_CODE
from uwsgi_headroom.uwsgi_log.scan import Seen

AGREE_SECONDS = 5.0
"""uWSGI's master notices the end of a worker within a second, and may not answer for three; the log is read twice a
second."""

INSTANT = 0.0005
"""A request that takes less than this many seconds in the mean reached no application that does anything."""

ALIKE = (0.75, 1.25)
"""The share of the lines that the connections without a request must be at least and at most, and 2 more: an
exporter and a health check connect too. Where other programs of the same network namespace accept connections,
nothing agrees."""

JUDGED_AFTER = 2.0
"""Seconds after a line at which connections are compared: some of a burst may not be in both counters before."""

_FACTS_SECONDS = 0.4
"""The least time between two facts that are kept."""

_MOST_ENDED = 1000


class Facts(NamedTuple):
    """What is known of a server at one reading. opens: TCP connections that its network namespace has accepted, None
    without a TCP socket; reads: how often its stats were read."""

    at: float
    respawns: int
    harakiris: int
    exceptions: int
    write_errors: int
    cache_full: int
    requests: int
    running_time: float
    reads: int
    opens: int | None
    is_queue_full: bool
    lacks_application: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A kind of line that was read at `at`, `count` times."""

    at: float
    seen: Seen
    count: int


class Agreement:
    """Compares the lines of one server's log with its readings. reads_over_tcp: whether its stats are read over TCP."""

    def __init__(
        self,
        reads_over_tcp: bool = False,
        read_opens: Callable[[int], int | None] = read_passive_opens,
    ) -> None:
        self._reads_over_tcp = reads_over_tcp
        self._read_opens = read_opens
        self._facts: deque[Facts] = deque()
        self._pids: frozenset[int] = frozenset()
        self._ended: dict[int, float] = {}  # by pid: when it was seen to be gone
        self._proved: dict[str, deque[tuple[float, int]]] = {}  # by code: lines that were proven, and when
        self._refused: deque[tuple[float, int]] = deque()  # lines of refused requests, and when
        self._reads = 0
        self._noted_at, self._step = 0.0, 0.0  # the last reading, and the time from the one before

    def note(self, reading: Reading) -> None:
        snapshot = reading.snapshot
        if not isinstance(snapshot, Snapshot):
            return
        self._reads += self._reads_over_tcp
        self._noted_at, self._step = reading.at, reading.at - self._noted_at
        alive = frozenset(
            worker.pid for worker in snapshot.workers if worker.pid and not reading.process_is_missing(worker)
        )
        for pid in self._pids - alive:
            self._ended[pid] = reading.at
        while len(self._ended) > _MOST_ENDED:
            del self._ended[next(iter(self._ended))]
        self._pids = alive
        if self._facts and reading.at - self._facts[-1].at < _FACTS_SECONDS:
            return
        self._facts.append(self._describe(reading, snapshot))
        while self._facts[0].at < reading.at - 3 * AGREE_SECONDS:
            self._facts.popleft()
        self._forget(reading.at - 3 * AGREE_SECONDS)

    def _describe(self, reading: Reading, snapshot: Snapshot) -> Facts:
        workers = snapshot.workers
        pid = reading.host.master_pid
        has_tcp = pid is not None and any(is_tcp(socket.name) for socket in snapshot.sockets)
        return Facts(
            at=reading.at,
            respawns=sum([worker.respawns or 0 for worker in workers]),
            harakiris=sum([worker.harakiris or 0 for worker in workers]),
            exceptions=sum([worker.exceptions or 0 for worker in workers]),
            write_errors=sum([worker.write_errors or 0 for worker in workers]),
            cache_full=sum([cache.full or 0 for cache in snapshot.caches]),
            requests=sum([worker.requests or 0 for worker in workers]),
            running_time=sum([worker.running_time or 0.0 for worker in workers]),
            reads=self._reads,
            opens=self._read_opens(pid) if has_tcp and pid is not None else None,
            is_queue_full=any(queue.is_full for queue in reading.listen_queues().values()),
            lacks_application=any(worker.accepting and not worker.apps for worker in workers),
        )

    def _forget(self, before: float) -> None:
        for pid in [pid for pid, at in self._ended.items() if at < before]:
            del self._ended[pid]
        for proved in (*self._proved.values(), self._refused):
            while proved and proved[0][0] < before:
                proved.popleft()

    def hear(self, line: Line) -> None:
        """Note that this line was read, before anything is asked about it."""
        if BY_CODE[line.seen.code].agrees == "unaccounted":
            self._refused.append((line.at, line.count))

    def count(self, line: Line, now: float) -> int:
        """How many of a kind of line are proven by now that were not before; asked until AGREE_SECONDS after it."""
        agrees = BY_CODE[line.seen.code].agrees
        match agrees:
            case None:
                proven = 0
            case "ended":
                at = self._ended.get(line.seen.pid or 0)
                proven = line.count if at is not None and abs(at - line.at) <= AGREE_SECONDS else 0
            case "worker_gone":
                gone = any(abs(at - line.at) <= AGREE_SECONDS for at in self._ended.values())
                proven = line.count if gone else 0
            case "queue_full" | "no_application":
                field = "is_queue_full" if agrees == "queue_full" else "lacks_application"
                facts = [each for each in self._facts if abs(each.at - line.at) <= AGREE_SECONDS]
                proven = line.count if any(getattr(each, field) for each in facts) else 0
            case "instant":
                proven = line.count if self._count_instant(line.at) >= line.count else 0
            case "unaccounted":
                proven = line.count if self._is_accounted(line.at, now) else 0
            case counter:
                left = self._growth(counter, line.at) - self._proven_since(line.seen.code, line.at - AGREE_SECONDS)
                proven = min(line.count, max(0, int(left)))
        if proven:
            self._proved.setdefault(line.seen.code, deque(maxlen=1000)).append((now, proven))
        return proven

    def _is_accounted(self, at: float, now: float) -> bool:
        """Whether as many connections were accepted without a request as requests are said to be refused. Judged once
        for each line: of many tries, one would agree by chance where other programs accept connections too."""
        if not JUDGED_AFTER <= now - at < JUDGED_AFTER + self._step:
            return False
        first, last = self._between(at)
        if first is None or last is None or first.opens is None or last.opens is None:
            return False
        lines = sum(count for heard, count in self._refused if heard >= first.at)
        others = last.opens - first.opens - (last.requests - first.requests) - (last.reads - first.reads)
        least, most = ALIKE
        return lines > 0 and least * lines <= others <= most * lines + 2

    def _count_instant(self, at: float) -> int:
        """The requests between facts, from AGREE_SECONDS before a time on, where they took no time: one that took some,
        or that a busy machine interrupted, hides no others."""
        facts = [each for each in self._facts if each.at >= at - AGREE_SECONDS]
        steps = [
            (later.requests - earlier.requests, later.running_time - earlier.running_time)
            for earlier, later in pairwise(facts)
        ]
        return sum(requests for requests, seconds in steps if requests > 0 and seconds <= INSTANT * requests)

    def _growth(self, field: str, at: float) -> float:
        first, last = self._between(at)
        if first is None or last is None:
            return 0.0
        grown: float = getattr(last, field) - getattr(first, field)
        return max(0.0, grown)  # a reload sets counters to 0

    def _between(self, at: float) -> tuple[Facts | None, Facts | None]:
        """The facts at AGREE_SECONDS before a time, or the oldest after that, and the last ones."""
        if len(self._facts) < 2:
            return None, None
        earlier = [facts for facts in self._facts if facts.at <= at - AGREE_SECONDS]
        return (earlier[-1] if earlier else self._facts[0]), self._facts[-1]

    def _proven_since(self, code: str, since: float) -> int:
        return sum(count for at, count in self._proved.get(code, ()) if at >= since)
