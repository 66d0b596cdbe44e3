"""Keeps a history of totals, and computes windows of it: the figures of the last N seconds.

A history has one row per second for an hour, so a window of any length needs only two rows. A window ends with the
latest sample, not with the latest row, so that it agrees with the totals exported beside it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.rows import Growth, Row, WorkerGrowth, compare_rows, pack_row
from uwsgi_headroom.history.totals import CpuTotals, Totals, WorkerTotals, copy_totals

ROW_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class WorkerWindow:
    """One worker in a window: counts, and times in seconds. A figure is None unless known for the whole window.

    lost: requests in service at the end of the worker's process that it did not complete; a lower bound.
    resident_bytes: at the end of the window.
    resident_growth: since the start of the window; negative if the memory shrank.
    """

    worker_id: int
    requests: int
    static_requests: int
    running_time: float | None
    busy_seconds: float | None
    up_seconds: float
    cpu_seconds: float | None
    respawns: int
    lost: int
    resident_bytes: int | None
    resident_growth: int | None


@dataclass(frozen=True, slots=True)
class CpuWindow:
    """CPU seconds that the server could use: own, idle, and of others (None unless known for the whole window).

    measured_seconds: the length of the window to within a second, since the machine is read once a second.
    """

    measured_seconds: float
    own_seconds: float
    idle_seconds: float
    others_seconds: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """The growth of a server's totals between two instants of its history.

    asked: the requested length in seconds.
    seconds: the actual length, which is less if the history is younger or an outage is at the start of the window.
    until: the monotonic time of the window's end.
    observed_seconds, gap_seconds: time with and without samples.
    full_seconds: time in which every available thread was busy.
    overflows: how often a connection found a TCP queue of the network namespace full, of any program; None if unknown.
    queue_seconds: the integral of the listen queue's length, by socket; only sockets measured for the whole window.
    queue_full_seconds: for the same sockets, the time at the queue's limit.
    occupancy: counts of samples by `OCCUPANCY_BOUNDS`.
    configured, available: threads at the end of the window; None if unknown.
    cpu: None unless known for the whole window.
    """

    asked: float
    seconds: float
    until: float
    observed_seconds: float
    full_seconds: float
    gap_seconds: float
    reloads: int
    exceptions: int
    harakiris: int
    respawns: int
    overflows: int | None
    workers: tuple[WorkerWindow, ...]
    queue_seconds: dict[str, float]
    queue_full_seconds: dict[str, float]
    occupancy: tuple[int, ...]
    configured: int | None
    available: int | None
    cpu: CpuWindow | None = None


class History:
    """An hour of totals, one row per second. It restarts when the number of workers, or their sockets, change."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=HISTORY_SECONDS)
        self._rows: deque[Row] = deque(maxlen=HISTORY_SECONDS)
        self._shape: tuple[object, ...] = ()
        self._began = 0.0
        self._latest_at = 0.0
        self._latest = Totals()

    def add(self, at: float, totals: Totals) -> None:
        """Record the totals at the monotonic time `at`; they become a row unless the last row is younger than a
        second. The caller may keep updating `totals` if it calls `add` after each update."""
        self._latest_at, self._latest = at, totals
        shape = (len(totals.workers), *totals.queue_seconds)
        if shape != self._shape:
            self._times.clear()
            self._rows.clear()
            self._shape = shape
            self._began = at
        if not self._times or at - self._times[-1] >= ROW_SECONDS:
            self._times.append(at)
            self._rows.append(pack_row(totals))

    def window(self, seconds: float, until: float | None = None) -> Window | None:
        """The window of the last `seconds` before the latest totals, or before the row at `until`. It begins with the
        nearest row; None if that leaves less than a second."""
        rows = len(self._times) if until is None else bisect_right(self._times, until)
        if rows < 2:
            return None
        end = self._latest_at if until is None else self._times[rows - 1]
        start = end - seconds
        after = bisect_left(self._times, start, 0, rows - 1)
        # Rows are slightly more than a second apart, or far apart around an outage, which no short window may span.
        first = after if after == 0 or self._times[after] - start < start - self._times[after - 1] else after - 1
        if end - self._times[first] < ROW_SECONDS:
            return None
        last = pack_row(self._latest) if until is None else self._rows[rows - 1]
        return _window_between(self._latest, (self._times[first], self._rows[first]), (end, last), seconds)

    def slices(self, step: float, start: float, until: float) -> Iterator[Window]:
        """Consecutive windows between two monotonic times, each about `step` seconds long and at least one second; an
        outage falls into one of them.

        Each window ends with the last row of a whole multiple of `step`, so a later call returns the same windows and
        adds new ones. The history may change while the caller iterates.
        """
        marks: list[tuple[float, Row]] = []
        for index in range(bisect_left(self._times, start), bisect_right(self._times, until)):
            at = self._times[index]
            if at // step >= self._latest_at // step:
                break  # this multiple has not ended yet
            if marks and marks[-1][0] // step == at // step:
                marks.pop()
            marks.append((at, self._rows[index]))
        totals = copy_totals(self._latest)
        return (_window_between(totals, first, last, step) for first, last in pairwise(marks))

    @property
    def seconds(self) -> float:
        """The length of the history, up to the latest totals."""
        return self._latest_at - self._times[0] if self._times else 0.0

    def newest_slice(self, step: float) -> object:
        """A value that changes whenever `slices` gains a window, or the history restarts."""
        return self._began, self._latest_at // step

    def covered(self, seconds: float) -> float:
        """How many of the last `seconds` the history covers."""
        return min(seconds, self.seconds)


def _window_between(latest: Totals, first: tuple[float, Row], last: tuple[float, Row], asked: float) -> Window:
    """The window between two rows. `latest` has the same workers and sockets, and the start of each known figure."""
    (at, start), (until, end) = first, last
    growth = compare_rows(start, end, len(latest.queue_seconds))
    workers = zip(latest.workers, growth.workers, strict=True)
    return Window(
        asked=asked,
        seconds=until - at,
        until=until,
        observed_seconds=growth.observed_seconds,
        full_seconds=growth.full_seconds,
        gap_seconds=growth.gap_seconds,
        reloads=growth.reloads,
        exceptions=growth.exceptions,
        harakiris=growth.harakiris,
        respawns=growth.respawns,
        overflows=None if latest.overflows is None else growth.overflows,
        workers=tuple(_worker_window(place, at, totals, grown) for place, (totals, grown) in enumerate(workers, 1)),
        queue_seconds=_since_start(latest, growth.queue_seconds, growth.queue_since, at),
        queue_full_seconds=_since_start(latest, growth.queue_full_seconds, growth.queue_since, at),
        occupancy=growth.occupancy,
        configured=growth.configured or None,
        available=growth.available if growth.configured else None,
        cpu=_cpu_window(at, latest.cpu, growth),
    )


def _since_start(latest: Totals, areas: list[float], known_since: list[float], start: float) -> dict[str, float]:
    """The areas of the queues that were measured from the start of the window to its end, by socket."""
    named = zip(latest.queue_seconds, areas, known_since, strict=True)
    return {name: area for name, area, since in named if since <= start}


def _covers(since: float | None, start: float) -> bool:
    """Whether a figure known since `since` is known for a whole window that starts at `start`."""
    return since is not None and since <= start


def _cpu_window(start: float, totals: CpuTotals | None, growth: Growth) -> CpuWindow | None:
    measured, own, idle, others = growth.cpu
    if totals is None or not _covers(totals.since, start) or not measured:
        return None
    return CpuWindow(measured, own, idle, others if _covers(totals.others_since, start) else None)


def _worker_window(worker_id: int, start: float, totals: WorkerTotals, grown: WorkerGrowth) -> WorkerWindow:
    requests, static_requests, respawns, lost, up, cpu, running, busy, early, late = grown
    return WorkerWindow(
        worker_id=worker_id,
        requests=requests,
        static_requests=static_requests,
        running_time=running if _covers(totals.running_time_since, start) else None,
        busy_seconds=None if totals.busy_seconds is None else busy,
        up_seconds=up,
        cpu_seconds=None if totals.cpu_seconds is None or not _covers(totals.cpu_since, start) else cpu,
        respawns=respawns,
        lost=lost,
        resident_bytes=late or None,
        resident_growth=late - early if early and late else None,
    )
