"""Keeps what one server's log said: counters, and an hour of the messages for the windows of the figures; and decides
which of its lines are true.

A thread reads and scans the file (`read`); the event loop takes the results (`take`) and compares them with the
readings (`note`). Kept are codes, numbers of workers, signals and limits, and the places of exceptions: no line.

The application writes to the same log, and prints what its users type, so a line alone proves nothing. Its proof
(`messages.Proof`) is within PROOF_SECONDS of it, and a PID in it must be a worker's.

The line of a request is proven if its numbers are those of the worker with its PID: the calls of the application, or
the requests of all workers. Requests and bytes must be as many as the lines of all requests together say: where uWSGI
logs each request, a forged line is one too many; where it may not (`Options.logs_requests`), no such line is proven.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from math import inf
from time import thread_time
from typing import NamedTuple

from msgspec import Struct, field

from uwsgi_headroom.config.defaults import HISTORY_SECONDS, JOURNAL
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import LogMessage, LogRecord
from uwsgi_headroom.stats.server import Snapshot, Worker
from uwsgi_headroom.uwsgi_log.messages import BY_CODE, ENDS_START, describe
from uwsgi_headroom.uwsgi_log.scan import Found, Scanner, count_found, count_requests
from uwsgi_headroom.uwsgi_log.tail import Tail, UnitJournal

PROOF_SECONDS = 5.0
"""uWSGI's master notices the end of a worker within a second, and may not answer for three."""

RACY = 0.99
"""The part of all requests that the log's counter has at least: uWSGI's workers add to it without a lock."""

_OF_WORKERS = ("respawns", "harakiris", "exceptions", "read_errors", "write_errors", "requests", "transmitted_bytes")

_FACTS_SECONDS, _MOST_USED = 0.4, 1000
"""The least time between two facts that are kept."""


class ProofFacts(NamedTuple):
    """What is known of a server at one reading. calling: requests in service, which may already be counted as calls;
    calls: by PID, those of each application; states: which proofs are true now."""

    at: float
    counters: Mapping[str, int]
    calling: int
    calls: Mapping[int, Mapping[int, int]]
    states: Mapping[str, bool]


class LogLine(Struct):
    """A kind of line that was read at `at`. count: how many of them are not proven yet."""

    at: float
    seen: Found
    count: int


class Proofs:
    """Compares the lines of one server's log with its readings. One growth of a counter proves one line."""

    def __init__(self) -> None:
        self._facts: deque[ProofFacts] = deque()
        self._pids: frozenset[int] = frozenset()
        self._logs_requests = False
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
        setup = reading.host.setup
        self._logs_requests = setup is not None and setup.options.logs_requests
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

    def count(self, line: LogLine, now: float) -> int:
        """How many of a kind of line are proven by now that were not before; asked until PROOF_SECONDS after it."""
        seen, proof = line.seen, BY_CODE[line.seen.code].proof
        is_of_others = seen.pid and seen.pid not in self._pids and seen.pid not in self._ended
        if proof is None or not self._facts or is_of_others:
            return 0
        match proof:
            case "pid_gone":
                ended = self._ended.get(seen.pid or 0)
                return line.count if ended is not None and abs(ended - line.at) <= PROOF_SECONDS else 0
            case "queue_full" | "no_application":
                near = (facts for facts in self._facts if abs(facts.at - line.at) <= PROOF_SECONDS)
                return line.count if any(facts.states[proof] for facts in near) else 0
            case "request_line":
                return self._count_requests(line, now) if self._logs_requests and self._fits(seen) else 0
            case counter:
                # A client that leaves makes uWSGI write two kinds of lines, but a request without a call makes one.
                name = counter if counter == "uncalled" else seen.code
                proven = max(0, min(line.count, self._grown(counter) - self._used_up(name)))
                self.use(name, now, proven)
                return proven

    def _fits(self, seen: Found) -> bool:
        """Whether the numbers in the line of a request are those of the worker that it names."""
        known = [facts.calls[pid] for facts in self._facts if (pid := seen.pid or 0) in facts.calls]
        if not seen.request or not known:
            return False
        application, calls, requests, _ = seen.request
        if application < 0:
            first, last = (self._facts[place].counters["requests"] for place in (0, -1))
            return int(RACY * first) <= requests <= last
        return known[0].get(application, 0) <= calls <= known[-1].get(application, 0)

    def _count_requests(self, line: LogLine, now: float) -> int:
        size = line.seen.request[3] if line.seen.request else 0
        left, bytes_left = (self._grown(name) - self._used_up(name) for name in ("requests", "transmitted_bytes"))
        proven = max(0, min(line.count, left, bytes_left // size if size else line.count))
        self.use("requests", now, proven)
        self.use("transmitted_bytes", now, proven * size)
        return proven

    def _grown(self, counter: str) -> int:
        first, last = self._facts[0], self._facts[-1]
        grown = last.counters[counter] - first.counters[counter]
        if counter == "uncalled":  # a new process counts its calls from 0 on
            return grown - first.calling if first.calls.keys() == last.calls.keys() else 0
        return grown  # a reload sets counters to 0

    def use(self, name: str, at: float, number: int) -> None:
        """Note that so much of what has grown belongs to lines that are proven, or need no proof."""
        if number:
            used = self._used.setdefault(name, deque(maxlen=_MOST_USED))
            before = used.pop()[1] if used and used[-1][0] == at else 0
            used.append((at, before + number))

    def _used_up(self, name: str) -> int:
        return sum(number for _, number in self._used.get(name, ()))


def _describe(reading: Reading, snapshot: Snapshot) -> ProofFacts:
    workers = snapshot.workers
    return ProofFacts(
        at=reading.at,
        counters={
            **{name: sum([getattr(worker, name) or 0 for worker in workers]) for name in _OF_WORKERS},
            "cache_full": sum([cache.full or 0 for cache in snapshot.caches]),
            "uncalled": sum([_count_uncalled(worker) for worker in workers]),
        },
        calling=sum([worker.busy_threads or 0 for worker in workers]),
        calls={worker.pid: {app.app_id: app.requests or 0 for app in worker.apps} for worker in workers if worker.pid},
        states={
            "queue_full": any(queue.is_full for queue in reading.listen_queues().values()),
            "no_application": any(
                worker.accepting and worker.requests is not None and not worker.apps for worker in workers
            ),
        },
    )


def _count_uncalled(worker: Worker) -> int:
    """Completed requests that no application, no static file and no rule of routing got. 0 where uWSGI does not say so:
    it counts no calls of PHP, and without threads in its stats, no files."""
    if not worker.apps or worker.static_requests is None:
        return 0
    calls = sum([app.requests or 0 for app in worker.apps])
    return (worker.requests or 0) - calls - worker.static_requests - (worker.routed_requests or 0)


BIN_SECONDS = 5.0
"""Messages are kept by this much of time: a window of the figures may have some that are so much older."""

START_SECONDS = 60.0
"""A uWSGI that is down did not start because of what its log said in that time."""

START_BYTES = 1 << 20
"""Where uWSGI's last start is looked for in a log: at its end."""

MOST_LINES = 2000
"""The most kinds of lines of one server that wait for their proof."""

MOST_EVENTS = (20, 60.0)
"""The most different events of a log in so many seconds."""

NO_EVENTS = frozenset(("traceback", "status_5xx", "status_4xx", "status_3xx", "worker_spawned", "worker_finished"))
"""Messages that are in the journal already, by better figures, or that requests write."""

_MOST_NAMED = 20


class LogBatch(Struct):
    """What one turn found in a log. lines: all that were read, known or not; requests: those of requests; trouble: why
    the log is not read, as the end of a sentence; start: what was said at the last start before."""

    seen: Counter[Found] = field(default_factory=Counter)
    start: Counter[Found] = field(default_factory=Counter)
    lines: int = 0
    requests: int = 0
    trouble: str | None = None


class LogTotals(Struct, frozen=True):
    """The counters of one log since the exporter started. messages: by code; is_read: whether it is read now."""

    messages: Mapping[str, int]
    lines: int
    skipped_bytes: int
    is_read: bool


class _Bin(Struct):
    """One message in BIN_SECONDS from `at` on, without PIDs and numbers of requests."""

    at: float
    agreed: int = 0
    seen: Counter[Found] = field(default_factory=Counter)


AddEvent = Callable[[str, str, tuple[int, ...], int], None]
"""Adds an event to the journal: its title, its evidence, the workers and how often it happened."""


class UwsgiLog:
    """The log of one server, at `path`; that of a unit in systemd's journal is at `journal:UNIT`. master_pid: of a log
    that `check` found, which another process reads (`read_found`); else 0. trouble: of the last turn; empty before."""

    def __init__(self, path: str, master_pid: int = 0) -> None:
        self.path, self.master_pid, self.is_given_up = path, master_pid, False
        self.trouble: str | None = ""
        self._source = UnitJournal(path[len(JOURNAL) :]) if path.startswith(JOURNAL) else Tail(path, master_pid)
        self._scanner: Scanner | None = None  # made in the thread, since it takes 50 ms the first time
        self._proofs = Proofs()
        self._messages: Counter[str] = Counter()
        self._lines = 0
        self._bins: dict[str, deque[_Bin]] = {}
        self._start: set[str] = set()
        self._pending: deque[tuple[LogLine, _Bin]] = deque(maxlen=MOST_LINES)
        self._workers = 0
        self._titles: dict[str, float] = {}  # of events, and when each came first

    def read(self, now: float, most: int, cpu_until: float) -> LogBatch:
        """Read and scan what was added, `most` bytes and until this thread has used `cpu_until` seconds of CPU. Runs in
        a thread, one at a time."""
        batch = LogBatch()
        if self._scanner is None:
            self._scanner = Scanner()
            batch.start = self._find_start(self._scanner, now)
            for seen in batch.start:
                if BY_CODE[seen.code].proof == "no_application":  # may hold for the uWSGI that runs
                    batch.seen[seen] = batch.start[seen]
        scanner = self._scanner
        for block in self._source.read(now, most):
            if block is None:
                scanner.forget()
                continue
            batch.lines += block.count(b"\n")
            batch.requests += count_requests(block)
            for seen, count in scanner.scan(block).items():
                batch.seen[seen] += count
            if thread_time() >= cpu_until:
                break
        batch.trouble = self._source.trouble
        return batch

    def _find_start(self, scanner: Scanner, now: float) -> Counter[Found]:
        """Find what the log said at the last start, before it was read."""
        last = self._source.read_last(now, START_BYTES) if isinstance(self._source, Tail) else b""
        _, begins, lines = last.rpartition(b"*** Starting uWSGI ")
        seen = scanner.scan(lines) if begins else Counter[Found]()
        scanner.forget()
        return seen

    def explain_start(self, now: float) -> str:
        """The message that says why uWSGI does not start: of the last minute, or of the last start before the log was
        read; empty if there is none. It is true only of a uWSGI that is down."""
        said = {*self.record(now - START_SECONDS, now).messages, *self._start}
        return next((code for code in ENDS_START if code in said), "")

    def stop(self) -> None:
        """End what reads the log, if that is another process. The log is read no more."""
        if isinstance(self._source, UnitJournal):
            self._source.stop()

    def take(self, batch: LogBatch, at: float, add_event: AddEvent) -> None:
        """Take what a turn found at the monotonic time `at`."""
        self.trouble = batch.trouble
        self._lines += batch.lines
        self._start.update(seen.code for seen in batch.start)
        failed = sum(count for seen, count in batch.seen.items() if seen.request)
        self._proofs.use("requests", at, batch.requests - failed)
        for seen, count in batch.seen.items():
            self._messages[seen.code] += count
            if seen.worker is not None and not 1 <= seen.worker <= self._workers:
                seen = seen._replace(worker=None)  # noqa: PLW2901 - the application may have made it up
            line = LogLine(at, seen, count)
            self._pending.append((line, self._keep(line)))
            self._add_event(line, add_event)

    def _keep(self, line: LogLine) -> _Bin:
        bins, seen = self._bins.setdefault(line.seen.code, deque()), line.seen
        if not bins or line.at - bins[-1].at >= BIN_SECONDS:
            bins.append(_Bin(line.at))
        while line.at - bins[0].at > HISTORY_SECONDS:
            bins.popleft()
        kept = bins[-1]
        count_found(kept.seen, seen._replace(pid=None, request=None), _MOST_NAMED, line.count)
        return kept

    def _add_event(self, line: LogLine, add_event: AddEvent) -> None:
        seen = line.seen
        if seen.code in NO_EVENTS:
            return
        title = f"uWSGI's log: {describe(seen.code, seen.worker, seen.signal, seen.limit)}."
        most, seconds = MOST_EVENTS
        self._titles = {each: at for each, at in self._titles.items() if line.at - at < seconds}
        if len(self._titles) >= most and title not in self._titles:
            return
        self._titles.setdefault(title, line.at)
        evidence = f"Process {seen.pid}." if seen.pid else ""
        add_event(title, evidence, (seen.worker,) if seen.worker else (), line.count)

    def note(self, reading: Reading) -> None:
        """Compare the lines of the last seconds with a reading."""
        self._start.clear()
        if isinstance(reading.snapshot, Snapshot):
            self._workers = len(reading.snapshot.workers)
        self._proofs.note(reading)
        pending, self._pending = self._pending, deque(maxlen=MOST_LINES)
        for line, kept in pending:
            proven = self._proofs.count(line, reading.at)
            kept.agreed += proven
            line.count -= proven
            if line.count and reading.at - line.at < PROOF_SECONDS:
                self._pending.append((line, kept))

    def record(self, since: float, until: float) -> LogRecord:
        """What the log said between two monotonic times."""
        return LogRecord(
            off=self.trouble or None,
            messages={
                code: _sum(chosen)
                for code, bins in self._bins.items()
                if (chosen := [each for each in bins if since - BIN_SECONDS < each.at <= until])
            },
        )

    @property
    def totals(self) -> LogTotals:
        return LogTotals(dict(self._messages), self._lines, self._source.skipped, self.trouble is None)


_found: dict[tuple[str, int], UwsgiLog] = {}


def read_found(path: str, master_pid: int, now: float, most: int) -> LogBatch:
    """What was added to a log that `check` found; a question for `kernel.aside`, as its file system may not answer.
    now: monotonic seconds; most: bytes."""
    return _found.setdefault((path, master_pid), UwsgiLog(path, master_pid)).read(now, most, inf)


def _sum(bins: list[_Bin]) -> LogMessage:
    seen, places = Counter[Found](), Counter[str]()
    for each in bins:
        seen.update(each.seen)
    for one, count in seen.items():
        places[one.place] += count if one.place else 0
    return LogMessage(
        count=sum(seen.values()),
        agreed=sum(each.agreed for each in bins),
        workers=tuple(sorted({one.worker for one in seen if one.worker is not None}))[:_MOST_NAMED],
        signals=tuple(sorted({one.signal for one in seen if one.signal is not None}))[:_MOST_NAMED],
        limit=next((one.limit for one in reversed(list(seen)) if one.limit is not None), None),
        place=max(reversed([*places]), key=places.__getitem__),  # of a chain of exceptions, the last
    )
