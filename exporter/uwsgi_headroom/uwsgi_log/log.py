"""Keeps what one server's log said: counters, and an hour of the messages for the windows of the figures.

A thread reads and scans the file (`read`); the event loop takes the results (`take`) and compares them with the
readings (`note`). Kept are codes, numbers of workers, signals and limits, and the places of exceptions: no line, no
part of one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import thread_time
from typing import NamedTuple

from uwsgi_headroom.config.defaults import HISTORY_SECONDS, JOURNAL
from uwsgi_headroom.kernel.backlogs import read_passive_opens
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import LogMessage, LogRecord, is_tcp
from uwsgi_headroom.stats.server import Snapshot, Worker
from uwsgi_headroom.uwsgi_log.messages import BY_CODE, describe
from uwsgi_headroom.uwsgi_log.scan import Scanner, Seen, Trouble
from uwsgi_headroom.uwsgi_log.tail import Journal, Tail

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
    without a TCP socket; reads: how often its stats were read; uncalled: requests for which no application was called,
    which uWSGI counts when it calls one, from 0 on in each process."""

    at: float
    respawns: int
    harakiris: int
    exceptions: int
    write_errors: int
    cache_full: int
    requests: int
    uncalled: int
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
    """Compares the lines of one server's log with its readings. reads_over_tcp: whether its stats are read over TCP.

    The application can write any line into the log, so a line alone proves nothing. It counts as proven when, within
    AGREE_SECONDS before or after it, what it claims is also seen where the application's users cannot write. One growth
    of a counter proves one line, not a thousand.
    """

    def __init__(
        self, reads_over_tcp: bool = False, read_opens: Callable[[int], int | None] = read_passive_opens
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
            uncalled=sum([_count_uncalled(worker) for worker in workers]),
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
        if first is None or last is None or (field == "uncalled" and first.respawns != last.respawns):
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


def _count_uncalled(worker: Worker) -> int:
    calls = [app.requests or 0 for app in worker.apps]
    return (worker.requests or 0) - sum(calls) if calls else 0  # of PHP, uWSGI counts no application


BIN_SECONDS = 5.0
"""Messages are kept by this much of time: a window of the figures may have some that are so much older."""

MOST_LINES = 2000
"""The most kinds of lines of one server that wait for something that agrees with them."""

MOST_EVENTS = (20, 60.0)
"""The most new events of a log in so many seconds: a log full of different messages must not displace all others."""

NO_EVENTS = frozenset(("traceback", "status_5xx", "worker_spawned", "worker_finished"))
"""Messages that are in the journal already, by better figures, or that requests write."""

_MOST_NAMED = 20

_WHY: Mapping[Trouble, str] = {
    "missing": "there is no file of that name",
    "denied": "the user that runs uwsgi-headroom has no right to read it",
    "not_regular": "it is no regular file",
    "unreadable": "it cannot be opened",
    "no_journal": "there is no journal of systemd here",
    "no_journalctl": "there is no `journalctl` here",
    "journal_denied": "this user may not read the journal, which takes the group systemd-journal",
    "ended": "`journalctl` ended, and is started again",
}


@dataclass(slots=True)
class Batch:
    """What one turn found in a log. lines: all that were read, known or not."""

    seen: Counter[Seen] = field(default_factory=Counter)
    lines: int = 0


@dataclass(frozen=True, slots=True)
class LogTotals:
    """The counters of one log since the exporter started. messages: by code; is_read: whether it is read now."""

    messages: Mapping[str, int]
    lines: int
    skipped_bytes: int
    is_read: bool


@dataclass(slots=True)
class _Bin:
    """One message in BIN_SECONDS from `at` on."""

    at: float
    count: int = 0
    agreed: int = 0
    workers: set[int] = field(default_factory=set)
    signals: set[int] = field(default_factory=set)
    limit: int | None = None
    places: Counter[str] = field(default_factory=Counter)


AddEvent = Callable[[str, str, tuple[int, ...], int], None]
"""Adds an event to the journal: its title, its evidence, the workers and how often it happened."""


class UwsgiLog:
    """The log of one server, at `path`; that of a unit in systemd's journal is at `journal:UNIT`."""

    def __init__(self, path: str, *, reads_over_tcp: bool = False) -> None:
        self.path = path
        self._source = Journal(path[len(JOURNAL) :]) if path.startswith(JOURNAL) else Tail(path)
        self._scanner: Scanner | None = None  # made in the thread, since it takes 50 ms the first time
        self._agreement = Agreement(reads_over_tcp)
        self._messages: Counter[str] = Counter()
        self._lines = 0
        self._bins: dict[str, deque[_Bin]] = {}
        self._pending: deque[tuple[Line, _Bin, int]] = deque(maxlen=MOST_LINES)  # with those not proven yet
        self._workers, self._has_application = 0, True
        self._events_at: deque[float] = deque(maxlen=MOST_EVENTS[0])
        self._titles: dict[str, float] = {}

    def read(self, now: float, most: int, cpu_until: float) -> Batch:
        """Read and scan what was added, `most` bytes and until this thread has used `cpu_until` seconds of CPU. Runs in
        a thread, one at a time."""
        batch = Batch()
        scanner = self._scanner = self._scanner or Scanner()
        scanner.has_application = self._has_application
        for block in self._blocks(now, most, cpu_until):
            if block is None:
                scanner.forget()
                continue
            batch.lines += block.count(b"\n")
            for seen, count in scanner.scan(block).items():
                batch.seen[seen] += count
        return batch

    def _blocks(self, now: float, most: int, cpu_until: float) -> Iterator[bytes | None]:
        for block in self._source.read(now, most):
            yield block
            if block is not None and thread_time() >= cpu_until:
                return

    def stop(self) -> None:
        """End what reads the log, if that is another process. The log is read no more."""
        if isinstance(self._source, Journal):
            self._source.stop()

    def take(self, batch: Batch, at: float, add_event: AddEvent) -> None:
        """Take what a turn found at the monotonic time `at`."""
        self._lines += batch.lines
        for seen, count in batch.seen.items():
            self._messages[seen.code] += count
            line = Line(at, self._without_unknown(seen), count)
            self._agreement.hear(line)
            self._pending.append((line, self._keep(line), count))
            self._add_event(line, add_event)

    def _without_unknown(self, seen: Seen) -> Seen:
        """A message without the number of a worker that does not exist: the application may have made it up."""
        is_known = seen.worker is None or 1 <= seen.worker <= self._workers
        return seen if is_known else seen._replace(worker=None)

    def _keep(self, line: Line) -> _Bin:
        bins, seen = self._bins.setdefault(line.seen.code, deque()), line.seen
        if not bins or line.at - bins[-1].at >= BIN_SECONDS:
            bins.append(_Bin(line.at))
        while line.at - bins[0].at > HISTORY_SECONDS:
            bins.popleft()
        kept = bins[-1]
        kept.count += line.count
        if seen.worker is not None and len(kept.workers) < _MOST_NAMED:
            kept.workers.add(seen.worker)
        if seen.signal is not None and len(kept.signals) < _MOST_NAMED:
            kept.signals.add(seen.signal)
        kept.limit = seen.limit if seen.limit is not None else kept.limit
        if seen.place and (seen.place in kept.places or len(kept.places) < _MOST_NAMED):
            kept.places[seen.place] += line.count
        return kept

    def _add_event(self, line: Line, add_event: AddEvent) -> None:
        seen = line.seen
        if seen.code in NO_EVENTS:
            return
        title = f"uWSGI's log: {describe(seen.code, seen.worker, seen.signal, seen.limit)}."
        most, seconds = MOST_EVENTS
        self._titles = {each: at for each, at in self._titles.items() if line.at - at < seconds}
        if title not in self._titles:
            if len(self._events_at) == most and line.at - self._events_at[0] < seconds:
                return
            self._events_at.append(line.at)
        self._titles[title] = line.at
        evidence = f"Process {seen.pid}." if seen.pid else ""
        add_event(title, evidence, (seen.worker,) if seen.worker else (), line.count)

    def note(self, reading: Reading) -> None:
        """Compare the lines of the last seconds with a reading."""
        if isinstance(reading.snapshot, Snapshot):
            self._workers = len(reading.snapshot.workers)
            self._has_application = any(worker.apps for worker in reading.snapshot.workers)
        self._agreement.note(reading)
        if not self._pending:
            return
        pending, self._pending = self._pending, deque(maxlen=MOST_LINES)
        for line, kept, left in pending:
            proven = self._agreement.count(replace(line, count=left), reading.at)
            kept.agreed += proven
            if left > proven and reading.at - line.at < AGREE_SECONDS:
                self._pending.append((line, kept, left - proven))

    def record(self, since: float, until: float) -> LogRecord:
        """What the log said between two monotonic times."""
        return LogRecord(
            off=self.trouble,
            messages={
                code: _sum(chosen)
                for code, bins in self._bins.items()
                if (chosen := [each for each in bins if since - BIN_SECONDS < each.at <= until])
            },
        )

    @property
    def trouble(self) -> str | None:
        """Why the log is not read, as the end of a sentence; None while it is."""
        return _WHY[self._source.trouble] if self._source.trouble else None

    @property
    def totals(self) -> LogTotals:
        return LogTotals(dict(self._messages), self._lines, self._source.skipped, self._source.trouble is None)


def _sum(bins: list[_Bin]) -> LogMessage:
    places: Counter[str] = Counter()
    for each in bins:
        places.update(each.places)
    return LogMessage(
        count=sum(each.count for each in bins),
        agreed=sum(each.agreed for each in bins),
        workers=tuple(sorted(set().union(*(each.workers for each in bins))))[:_MOST_NAMED],
        signals=tuple(sorted(set().union(*(each.signals for each in bins))))[:_MOST_NAMED],
        limit=next((each.limit for each in reversed(bins) if each.limit is not None), None),
        place=places.most_common(1)[0][0] if places else "",
    )
