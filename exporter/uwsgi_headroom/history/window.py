"""Totals to windows: what happened in the last N seconds, whoever asks and whenever.

A history keeps one row a second for an hour, so a window costs two rows however long it is.

A window ends with the latest sample, not with the latest row: it is then over the same data as the totals that are
exported beside it, and the two agree.
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
    """What one worker did in a window: counts, and times in seconds; None where it is not known for all of the window.

    lost: requests that were in service when the worker's process ended, at least.
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
    lost: int
    resident_bytes: int | None
    resident_growth: int | None


@dataclass(frozen=True, slots=True)
class CpuWindow:
    """CPU seconds where the server could use CPU: own, idle, and of others (None where not known for all of the
    window), over measured_seconds: the window, give or take a second, for the machine is read once a second."""

    measured_seconds: float
    own_seconds: float
    idle_seconds: float
    others_seconds: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """What a server did between two rows of its history.

    asked: the length that was wanted, in seconds; seconds: the length it has, less while the history is younger or
    where an outage is at its start; until: the monotonic instant of its end.
    observed_seconds of it are covered by samples, full_seconds of them with every available thread busy.
    queue_seconds: by socket, the integral of the listen queue's length; only sockets measured for all of the window.
    queue_full_seconds: of the same sockets, how long they were at their limit. overflows: how often a connection found
    a TCP queue of the network namespace full, any program's; None where that is not known.
    occupancy: samples by `OCCUPANCY_BOUNDS`. configured and available: threads at its end, None where not known.
    cpu: None where not known for all of the window.
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
    """An hour of totals, a row a second. It begins anew when the number of workers or their sockets change."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=HISTORY_SECONDS)
        self._rows: deque[Row] = deque(maxlen=HISTORY_SECONDS)
        self._shape: tuple[object, ...] = ()
        self._began = 0.0
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
            self._began = at
        if not self._times or at - self._times[-1] >= ROW_SECONDS:
            self._times.append(at)
            self._rows.append(pack_row(totals))

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
        last = pack_row(self._latest) if until is None else self._rows[rows - 1]
        return _window_between(self._latest, (self._times[first], self._rows[first]), (end, last), seconds)

    def slices(self, step: float, start: float, until: float) -> Iterator[Window]:
        """One window after the other over what is there between two monotonic instants, each about `step` seconds long
        and a second at least; an outage is part of one.

        They end with the last row of each whole multiple of `step`, so that asked again they are the same and only
        new ones are added. The history may go on while they are taken.
        """
        marks: list[tuple[float, Row]] = []
        for index in range(bisect_left(self._times, start), bisect_right(self._times, until)):
            at = self._times[index]
            if at // step >= self._latest_at // step:
                break  # this multiple is not over yet
            if marks and marks[-1][0] // step == at // step:
                marks.pop()
            marks.append((at, self._rows[index]))
        totals = copy_totals(self._latest)
        return (_window_between(totals, first, last, step) for first, last in pairwise(marks))

    @property
    def seconds(self) -> float:
        """How far back it goes from the latest totals."""
        return self._latest_at - self._times[0] if self._times else 0.0

    def newest_slice(self, step: float) -> object:
        """Something that changes whenever there is one more of these, or the history has begun anew."""
        return self._began, self._latest_at // step

    def covered(self, seconds: float) -> float:
        """How much there has been of the last `seconds` before the latest totals."""
        return min(seconds, self.seconds)


def _window_between(latest: Totals, first: tuple[float, Row], last: tuple[float, Row], asked: float) -> Window:
    """`latest` tells of the same workers and sockets, and since when their times are known."""
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
    """By socket, of those that were measured from the start of a window to its end, whatever came of them later."""
    named = zip(latest.queue_seconds, areas, known_since, strict=True)
    return {name: area for name, area, since in named if since <= start}


def _covers(since: float | None, start: float) -> bool:
    """Whether what is known since then is known since the start of a window."""
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
