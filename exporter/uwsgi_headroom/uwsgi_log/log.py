"""Keeps what one server's log said: counters, and an hour of the messages for the windows of the figures.

A thread reads and scans the file (`read`); the event loop takes the results (`take`) and compares them with the
readings (`note`). Kept are codes, numbers of workers, signals and limits, and the places of exceptions: no line.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from time import thread_time

from msgspec import Struct, field
from msgspec.structs import replace

from uwsgi_headroom.config.defaults import HISTORY_SECONDS, JOURNAL
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import LogMessage, LogRecord
from uwsgi_headroom.stats.server import Snapshot
from uwsgi_headroom.uwsgi_log.messages import describe
from uwsgi_headroom.uwsgi_log.proof import PROOF_SECONDS, Line, Proofs
from uwsgi_headroom.uwsgi_log.scan import Scanner, Seen, count_requests
from uwsgi_headroom.uwsgi_log.tail import Journal, Tail

BIN_SECONDS = 5.0
"""Messages are kept by this much of time: a window of the figures may have some that are so much older."""

MOST_LINES = 2000
"""The most kinds of lines of one server that wait for their proof."""

MOST_EVENTS = (20, 60.0)
"""The most new events of a log in so many seconds: a log full of different messages must not displace all others."""

NO_EVENTS = frozenset(("traceback", "status_5xx", "worker_spawned", "worker_finished"))
"""Messages that are in the journal already, by better figures, or that requests write."""

_MOST_NAMED = 20


class Batch(Struct):
    """What one turn found in a log. lines: all that were read, known or not; requests: those of requests."""

    seen: Counter[Seen] = field(default_factory=Counter)
    lines: int = 0
    requests: int = 0


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
    seen: Counter[Seen] = field(default_factory=Counter)


AddEvent = Callable[[str, str, tuple[int, ...], int], None]
"""Adds an event to the journal: its title, its evidence, the workers and how often it happened."""


class UwsgiLog:
    """The log of one server, at `path`; that of a unit in systemd's journal is at `journal:UNIT`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._source = Journal(path[len(JOURNAL) :]) if path.startswith(JOURNAL) else Tail(path)
        self._scanner: Scanner | None = None  # made in the thread, since it takes 50 ms the first time
        self._proofs = Proofs()
        self._messages: Counter[str] = Counter()
        self._lines = 0
        self._bins: dict[str, deque[_Bin]] = {}
        self._pending: deque[tuple[Line, _Bin, int]] = deque(maxlen=MOST_LINES)  # with those not proven yet
        self._workers = 0
        self._events_at: deque[float] = deque(maxlen=MOST_EVENTS[0])
        self._titles: dict[str, float] = {}

    def read(self, now: float, most: int, cpu_until: float) -> Batch:
        """Read and scan what was added, `most` bytes and until this thread has used `cpu_until` seconds of CPU. Runs in
        a thread, one at a time."""
        batch = Batch()
        scanner = self._scanner = self._scanner or Scanner()
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
        return batch

    def stop(self) -> None:
        """End what reads the log, if that is another process. The log is read no more."""
        if isinstance(self._source, Journal):
            self._source.stop()

    def take(self, batch: Batch, at: float, add_event: AddEvent) -> None:
        """Take what a turn found at the monotonic time `at`."""
        self._lines += batch.lines
        failed = sum(count for seen, count in batch.seen.items() if seen.request)
        self._proofs.note_requests(at, batch.requests - failed)
        for seen, count in batch.seen.items():
            self._messages[seen.code] += count
            line = Line(at, self._without_unknown(seen), count)
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
        shown = seen._replace(pid=None, request=None)
        is_kept = shown in kept.seen or len(kept.seen) < _MOST_NAMED
        kept.seen[shown if is_kept else Seen(seen.code)] += line.count
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
        self._proofs.note(reading)
        if not self._pending:
            return
        pending, self._pending = self._pending, deque(maxlen=MOST_LINES)
        for line, kept, left in pending:
            proven = self._proofs.count(replace(line, count=left), reading.at)
            kept.agreed += proven
            if left > proven and reading.at - line.at < PROOF_SECONDS:
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
        return self._source.trouble

    @property
    def totals(self) -> LogTotals:
        return LogTotals(dict(self._messages), self._lines, self._source.skipped, self._source.trouble is None)


def _sum(bins: list[_Bin]) -> LogMessage:
    seen, places = Counter[Seen](), Counter[str]()
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
        place=places.most_common(1)[0][0],
    )
