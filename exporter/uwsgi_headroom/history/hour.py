"""Keeps an hour of totals, and gives windows of it: the figures of the last N seconds.

Rows are totals, so a window of any length needs only two of them. There is one row per second, and fewer of older
times (`TIERS`): the last one of each whole multiple of the tier's step, so that windows which end at such multiples
stay the same. A window ends with the latest sample, not with the latest row, so that it agrees with the totals
exported beside it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.rows import Row, pack_row, shape_of
from uwsgi_headroom.history.totals import Totals, copy_totals
from uwsgi_headroom.history.window import Window, window_between

ROW_SECONDS = 1.0

TIERS = ((360.0, ROW_SECONDS), (960.0, 5.0), (HISTORY_SECONDS, 15.0))
"""Up to which age, in seconds, rows of which step are kept: as charts of 5 minutes, 15 minutes and an hour need."""

_THINNED_SECONDS = 60.0
"""Time after which rows are thinned, together."""


def finest_step(age: float) -> float:
    """The shortest time between two rows as old as this, in seconds."""
    return next((step for longest, step in TIERS if age <= longest), TIERS[-1][1])


class History:
    """An hour of totals, one row per second. It restarts when the number of workers, their sockets or the backends
    change."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._rows: list[Row] = []
        self._thinned_at = 0.0
        self._shape: tuple[object, ...] = ()
        self._began = 0.0
        self._latest_at = 0.0
        self._latest = Totals()
        self._latest_row: Row | None = None  # packed when it is first needed

    def add(self, at: float, totals: Totals) -> None:
        """Record the totals at the monotonic time `at`; they become a row unless the last row is younger than a
        second. The caller may keep updating `totals` if it calls `add` after each update."""
        self._latest_at, self._latest, self._latest_row = at, totals, None
        shape = shape_of(totals)
        if shape != self._shape:
            self._times.clear()
            self._rows.clear()
            self._shape = shape
            self._began = at
        if not self._times or at - self._times[-1] >= ROW_SECONDS:
            self._times.append(at)
            self._rows.append(self._pack_latest())
            if at - self._thinned_at >= _THINNED_SECONDS:
                self._thin(at)

    def window(self, seconds: float, until: float | None = None) -> Window | None:
        """The window of the last `seconds` before the latest totals, or before the row at `until`. It begins with the
        nearest row; None if that leaves less than a second."""
        rows = len(self._times) if until is None else bisect_right(self._times, until)
        if rows < 2:
            return None
        end = self._latest_at if until is None else self._times[rows - 1]
        start = end - min(seconds, HISTORY_SECONDS)
        after = bisect_left(self._times, start, 0, rows - 1)
        # Rows are slightly more than a second apart, or far apart around an outage, which no short window may span.
        first = after if after == 0 or self._times[after] - start < start - self._times[after - 1] else after - 1
        if end - self._times[first] < ROW_SECONDS:
            return None
        last = self._pack_latest() if until is None else self._rows[rows - 1]
        return window_between(self._latest, (self._times[first], self._rows[first]), (end, last), seconds)

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
        return (window_between(totals, first, last, step) for first, last in pairwise(marks))

    @property
    def seconds(self) -> float:
        """The length of the history, up to the latest totals."""
        return min(HISTORY_SECONDS, self._latest_at - self._times[0]) if self._times else 0.0

    def newest_slice(self, step: float) -> object:
        """A value that changes whenever `slices` gains a window, or the history restarts."""
        return self._began, self._latest_at // step

    def covered(self, seconds: float) -> float:
        """How many of the last `seconds` the history covers."""
        return min(seconds, self.seconds)

    def _thin(self, now: float) -> None:
        """Drop the rows that are too old, and of those in the older tiers all but the last of each step."""
        self._thinned_at = now
        kept = [
            place
            for place, (at, following) in enumerate(pairwise(self._times))
            if now - at <= HISTORY_SECONDS and at // finest_step(now - at) != following // finest_step(now - at)
        ]
        kept.append(len(self._times) - 1)
        self._times = [self._times[place] for place in kept]
        self._rows = [self._rows[place] for place in kept]

    def _pack_latest(self) -> Row:
        if self._latest_row is None:
            self._latest_row = pack_row(self._latest)
        return self._latest_row
