"""Keeps an hour of totals, and gives windows of it: the figures of the last N seconds.

Rows are totals, so a window of any length needs only two of them. There is one row per second, and fewer of older
times (`row_blocks`): the last one of each whole multiple of the tier's step, so that windows which end at such
multiples stay the same. A window ends with the latest sample, not with the latest row, so that it agrees with the
totals exported beside it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.row_blocks import ROW_SECONDS, RowBlocks
from uwsgi_headroom.history.rows import Row, pack_row, shape_of
from uwsgi_headroom.history.totals import Totals, copy_totals
from uwsgi_headroom.history.window import Window, window_between


class History:
    """An hour of totals, one row per second. It restarts when the number of workers, their sockets or the backends
    change."""

    def __init__(self) -> None:
        self._rows = RowBlocks()
        self._shape: tuple[object, ...] = ()
        self._began = 0.0
        self._latest_at = 0.0
        self._latest = Totals()
        self._latest_row: Row | None = None  # packed when it is first needed

    def add(self, at: float, totals: Totals) -> None:
        """Record the totals at the monotonic time `at`; they become a row unless the last row is younger than a
        second. The caller may keep updating `totals` if it calls `add` after each update. An earlier time than the last
        one counts as the last: the totals reach until then."""
        at = max(at, self._latest_at)
        self._latest_at, self._latest, self._latest_row = at, totals, None
        shape = shape_of(totals)
        if shape != self._shape:
            self._rows = RowBlocks()
            self._shape = shape
            self._began = at
        if not self._rows.times or at - self._rows.times[-1] >= ROW_SECONDS:
            self._rows.append(at, self._pack_latest())

    def window(self, seconds: float, until: float | None = None) -> Window | None:
        """The window of the last `seconds` before the latest totals, or before the row at `until`. It begins with the
        nearest row; None if that leaves less than a second."""
        times = self._rows.times
        rows = len(times) if until is None else bisect_right(times, until)
        if rows < 2:
            return None
        end = self._latest_at if until is None else times[rows - 1]
        start = end - min(seconds, HISTORY_SECONDS)
        after = bisect_left(times, start, 0, rows - 1)
        # Rows are slightly more than a second apart, or far apart around an outage, which no short window may span.
        first = after if after == 0 or times[after] - start < start - times[after - 1] else after - 1
        if end - times[first] < ROW_SECONDS:
            return None
        last = self._pack_latest() if until is None else self._rows[rows - 1]
        return window_between(self._latest, (times[first], self._rows[first]), (end, last), seconds)

    def slices(self, step: float, start: float, until: float) -> Iterator[Window]:
        """Consecutive windows between two monotonic times, each about `step` seconds long and at least one second; an
        outage falls into one of them.

        Each window ends with the last row of a whole multiple of `step`, so a later call returns the same windows and
        adds new ones. The history may change while the caller iterates.
        """
        times = self._rows.times
        places: list[int] = []
        for place in range(bisect_left(times, start), bisect_right(times, until)):
            at = times[place]
            if at // step >= self._latest_at // step:
                break  # this multiple has not ended yet
            if places and times[places[-1]] // step == at // step:
                places.pop()
            places.append(place)
        rows = self._rows.rows(places[0], places[-1] + 1) if places else iter(())
        chosen = set(places)
        marks = ((times[place], row) for place, row in enumerate(rows, places[0] if places else 0) if place in chosen)
        totals = copy_totals(self._latest)
        return (window_between(totals, first, last, step) for first, last in pairwise(marks))

    @property
    def seconds(self) -> float:
        """The length of the history, up to the latest totals."""
        return min(HISTORY_SECONDS, self._latest_at - self._rows.times[0]) if self._rows else 0.0

    def newest_slice(self, step: float) -> object:
        """A value that changes whenever `slices` gains a window, or the history restarts."""
        return self._began, self._latest_at // step

    def covered(self, seconds: float) -> float:
        """How many of the last `seconds` the history covers."""
        return min(seconds, self.seconds)

    def _pack_latest(self) -> Row:
        if self._latest_row is None:
            self._latest_row = pack_row(self._latest)
        return self._latest_row
