"""Totals to windows: what happened in the last N seconds, whoever asks and whenever.

A history keeps one row a second for an hour, so a window costs two rows however long it is. What can grow without
bound within an hour (thread time, queue time) is kept as doubles; counts, and times that one process cannot outrun, as
numbers modulo 2**32 (of 0.1 ms), whose differences are exact. A row takes 40 bytes a worker: 144 kB a worker for the
hour.

A window ends with the latest sample, not with the latest row: it is then over the same data as the totals that are
exported beside it, and the two agree.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass

from uwsgi_headroom.totals import Totals, WorkerTotals

HISTORY_SECONDS = 3600
ROW_SECONDS = 1.0

_TICKS = 10_000  # a second: a process may so use 119 CPUs for an hour
_MODULO = 2**32
_PAGE = 1024  # bytes: resident memory up to 4 TiB
_SERVER_COUNTS, _WORKER_COUNTS = 4, 6
_SERVER_TIMES, _WORKER_TIMES = 3, 2  # and one a socket, between the server's and the workers'

_Row = tuple["array[int]", "array[float]"]
"""Counts and times: first the server's, then each worker's."""


@dataclass(frozen=True, slots=True)
class WorkerWindow:
    """What one worker did in a window: counts, and times in seconds; None where it is not known for all of the window.

    resident_bytes at the window's end, and by how much they grew (negative: shrank) since its start.
    """

    worker_id: int
    requests: int
    static_requests: int
    running_time: float | None
    busy_seconds: float | None
    up_seconds: float
    cpu_seconds: float | None
    respawns: int
    resident_bytes: int | None
    resident_growth: int | None


@dataclass(frozen=True, slots=True)
class Window:
    """What a server did between two rows of its history.

    asked: the length that was wanted, in seconds; seconds: the length it has, less while the history is younger or
    where an outage is at its start.
    observed_seconds of it are covered by samples, full_seconds of them with every available thread busy.
    queue_seconds: by socket, the integral of the listen queue's length; only sockets measured for all of the window.
    """

    asked: float
    seconds: float
    observed_seconds: float
    full_seconds: float
    gap_seconds: float
    reloads: int
    exceptions: int
    harakiris: int
    respawns: int
    workers: tuple[WorkerWindow, ...]
    queue_seconds: dict[str, float]


class History:
    """An hour of totals, a row a second. It begins anew when the number of workers or their sockets change."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=HISTORY_SECONDS)
        self._rows: deque[_Row] = deque(maxlen=HISTORY_SECONDS)
        self._shape: tuple[object, ...] = ()
        self._latest_at = 0.0
        self._latest = Totals()

    def add(self, at: float, totals: Totals) -> None:
        """Take note of the totals of this monotonic instant; they are kept unless the last row is younger than a
        second. `totals` may go on growing, if the next ones are added as soon as they have."""
        self._latest_at, self._latest = at, totals
        shape = (len(totals.workers), *totals.queue_seconds)
        if shape != self._shape:
            self._times.clear()
            self._rows.clear()
            self._shape = shape
        if not self._times or at - self._times[-1] >= ROW_SECONDS:
            self._times.append(at)
            self._rows.append(_row(totals))

    def window(self, seconds: float, until: float | None = None) -> Window | None:
        """The last `seconds` before the latest totals, or before the row at `until`. It begins with the row nearest to
        so long ago; None where that leaves less than a second."""
        rows = len(self._times) if until is None else bisect_right(self._times, until)
        if rows < 2:
            return None
        end = self._latest_at if until is None else self._times[rows - 1]
        start = end - seconds
        after = bisect_left(self._times, start, 0, rows - 1)
        # Rows are a second apart and a little, or far apart around an outage, which no short window may span.
        first = after if after == 0 or self._times[after] - start < start - self._times[after - 1] else after - 1
        if end - self._times[first] < ROW_SECONDS:
            return None
        return self._between(first, _row(self._latest) if until is None else self._rows[rows - 1], end, seconds)

    def _between(self, first: int, end: _Row, until: float, asked: float) -> Window:
        start, at = self._rows[first], self._times[first]
        counts = [(late - early) % _MODULO for early, late in zip(start[0], end[0], strict=True)]
        times = [late - early for early, late in zip(start[1], end[1], strict=True)]
        reloads, exceptions, harakiris, respawns = counts[:_SERVER_COUNTS]
        observed, full, gap = times[:_SERVER_TIMES]
        sockets = self._latest.queue_seconds
        workers = []
        for index, totals in enumerate(self._latest.workers):
            count = _SERVER_COUNTS + index * _WORKER_COUNTS
            time = _SERVER_TIMES + len(sockets) + index * _WORKER_TIMES
            grown = counts[count : count + _WORKER_COUNTS]
            memory = start[0][count + _WORKER_COUNTS - 1], end[0][count + _WORKER_COUNTS - 1]
            workers.append(_worker(index + 1, at, totals, grown, times[time : time + _WORKER_TIMES], memory))
        return Window(
            asked=asked,
            seconds=until - at,
            observed_seconds=observed,
            full_seconds=full,
            gap_seconds=gap,
            reloads=reloads,
            exceptions=exceptions,
            harakiris=harakiris,
            respawns=respawns,
            workers=tuple(workers),
            queue_seconds={
                name: area
                for name, area in zip(sockets, times[_SERVER_TIMES:], strict=False)
                if _covers(self._latest.queue_since.get(name), at)
            },
        )


def _row(totals: Totals) -> _Row:
    workers = totals.workers
    counts = [
        totals.reloads,
        sum(worker.exceptions for worker in workers),
        sum(worker.harakiris for worker in workers),
        sum(worker.respawns for worker in workers),
    ]
    times = [totals.observed_seconds, totals.full_seconds, totals.gap_seconds, *totals.queue_seconds.values()]
    for worker in workers:
        counts += (
            worker.requests,
            worker.static_requests,
            worker.respawns,
            round(worker.up_seconds * _TICKS),
            round((worker.cpu_seconds or 0.0) * _TICKS),
            (worker.resident_bytes or 0) // _PAGE,
        )
        times += (worker.running_time or 0.0, worker.busy_seconds or 0.0)
    return array("I", (count % _MODULO for count in counts)), array("d", times)


def _covers(since: float | None, start: float) -> bool:
    """Whether what is known since then is known since the start of a window."""
    return since is not None and since <= start


def _worker(
    worker_id: int,
    start: float,
    totals: WorkerTotals,
    counts: list[int],
    times: list[float],
    memory: tuple[int, int],
) -> WorkerWindow:
    requests, static_requests, respawns, up, cpu, _ = counts
    running, busy = times
    early, late = memory
    return WorkerWindow(
        worker_id=worker_id,
        requests=requests,
        static_requests=static_requests,
        running_time=running if _covers(totals.running_time_since, start) else None,
        busy_seconds=None if totals.busy_seconds is None else busy,
        up_seconds=up / _TICKS,
        cpu_seconds=None if totals.cpu_seconds is None or not _covers(totals.cpu_since, start) else cpu / _TICKS,
        respawns=respawns,
        resident_bytes=late * _PAGE or None,
        resident_growth=(late - early) * _PAGE if early and late else None,
    )
