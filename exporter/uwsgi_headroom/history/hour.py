"""Keeps an hour of totals, and gives windows of it: the figures of the last N seconds.

Rows are totals, so a window of any length needs only two of them. There is one row per second, and fewer of older times
(TIERS): the last one of each whole multiple of the tier's step, so that windows which end at such multiples stay the
same. A window ends with the latest sample, not with the latest row, to agree with exported totals.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.rows import Row, pack_row, shape_of, window_between
from uwsgi_headroom.history.totals import Totals, copy_totals
from uwsgi_headroom.history.window import Window

ROW_SECONDS = 1.0

TIERS = ((360.0, ROW_SECONDS), (960.0, 5.0), (HISTORY_SECONDS, 15.0))
"""Up to which age, in seconds, rows of which step are kept: as charts of 5 minutes, 15 minutes and an hour need."""


def finest_step(age: float) -> float:
    """The shortest time between two rows as old as this, in seconds."""
    return next((step for longest, step in TIERS if age <= longest), TIERS[-1][1])


class History:
    """An hour of totals, a row per second. It restarts when the number of workers, the sockets or backends change."""

    def __init__(self) -> None:
        self._rows = _RowBlocks()
        self._shape: tuple[object, ...] = ()
        self._began = 0.0
        self._latest_at = 0.0
        self._latest = Totals()
        self._latest_row: Row | None = None  # packed when it is first needed
        self._outage_until = float("-inf")

    def add(self, at: float, totals: Totals) -> None:
        """Record the totals at the monotonic time `at`; they become a row unless the last row is younger than a
        second. The caller may keep updating `totals` if it calls `add` after each update. An earlier time than the last
        one counts as the last: the totals reach until then."""
        at = max(at, self._latest_at)
        self._latest_at, self._latest, self._latest_row = at, totals, None
        shape = shape_of(totals)
        if shape != self._shape:
            self._rows = _RowBlocks()
            self._shape = shape
            self._began = at
        if not self._rows.times or at - self._rows.times[-1] >= ROW_SECONDS:
            self._rows.append(at, self._pack_latest())

    def end_outage(self, at: float) -> None:
        """Record that an outage ended at `at`, the time of the totals that were added last: no window of the present
        reaches back over it. The hour of charts goes on."""
        at = max(at, self._latest_at)
        self._outage_until = at
        if not self._rows.times or self._rows.times[-1] < at:
            self._rows.append(at, self._pack_latest())

    def window(self, seconds: float, until: float | None = None) -> Window | None:
        """The window of the last `seconds` before the latest totals, or before the row at `until`. It begins with the
        nearest row; None if that leaves less than a second. A window that ends now begins after the last outage."""
        times = self._rows.times
        rows = len(times) if until is None else bisect_right(times, until)
        if rows < 2:
            return None
        end = self._latest_at if until is None else times[rows - 1]
        start = end - min(seconds, HISTORY_SECONDS)
        if until is None and start <= self._outage_until:
            start = self._outage_until
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


_BLOCK_ROWS = 30
_PLAIN_ROWS = 65


class _Block(Struct, frozen=True):
    """Rows of one size in bytes. step: the time between them."""

    step: float
    times: array[float]
    size: int
    compressed: bytes

    def rows(self) -> list[bytes]:
        joined = zlib.decompress(self.compressed)
        return [joined[start : start + self.size] for start in range(0, len(joined), self.size)]

    def row(self, place: int) -> bytes:
        """One of the rows; later ones are not decompressed."""
        end = (place + 1) * self.size
        return zlib.decompressobj().decompress(self.compressed, end)[end - self.size :]


class _RowBlocks:
    """The rows of the last hour, all of one size: the newest as they are, older ones compressed in blocks, and fewer of
    them with age. times: of every row that is kept, ascending, in monotonic seconds.

    Successive rows differ little, so a block takes about a sixth of its rows. A row of the last minute costs nothing to
    read; an older one costs the decompression of its block, some 40 microseconds.
    """

    def __init__(self) -> None:
        self.times = array("d")
        self._blocks: list[_Block] = []
        self._starts = [0]  # the place of the first row of each block, and that of the first plain row
        self._rows: list[bytes] = []

    def append(self, at: float, row: bytes) -> None:
        self.times.append(at)
        self._rows.append(row)
        if len(self._rows) >= _PLAIN_ROWS + _BLOCK_ROWS:
            self._pack(at)

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, place: int) -> bytes:
        number = bisect_right(self._starts, place) - 1
        place -= self._starts[number]
        return self._blocks[number].row(place) if number < len(self._blocks) else self._rows[place]

    def rows(self, start: int, end: int) -> Iterator[bytes]:
        """The rows from one place to before another. Rows may be added meanwhile."""
        blocks, starts, plain = self._blocks, self._starts, self._rows
        for number in range(bisect_right(starts, start) - 1, len(starts)):
            first = starts[number]
            if first >= end:
                return
            rows = blocks[number].rows() if number < len(blocks) else plain
            yield from rows[max(0, start - first) : end - first]

    def _pack(self, now: float) -> None:
        """Compress the oldest plain rows, and thin or drop the blocks that have become too old for their step."""
        plain = len(self._rows)
        times = self.times[len(self.times) - plain :]
        blocks = [*self._blocks, _compress(ROW_SECONDS, times[:_BLOCK_ROWS], self._rows[:_BLOCK_ROWS])]
        self._rows = self._rows[_BLOCK_ROWS:]
        self._blocks = []
        for block in blocks:
            age = now - block.times[-1]
            if age <= HISTORY_SECONDS:
                self._add(block, finest_step(age))
        self.times = array("d")
        self._starts = [0]
        for block in self._blocks:
            self.times.extend(block.times)
            self._starts.append(len(self.times))
        self.times.extend(times[_BLOCK_ROWS:])

    def _add(self, block: _Block, step: float) -> None:
        """Add a block with this time between its rows, to the last block if that has the same and has room."""
        if block.step == step:
            self._blocks.append(block)
            return
        ends = [at // step for at in block.times]
        kept = [place for place, (end, following) in enumerate(pairwise(ends)) if end != following]
        kept.append(len(ends) - 1)
        rows = block.rows()
        times, rows = array("d", [block.times[place] for place in kept]), [rows[place] for place in kept]
        last = self._blocks[-1] if self._blocks else None
        if last and last.step == step and len(last.times) + len(times) <= _BLOCK_ROWS:
            times, rows = last.times + times, last.rows() + rows
            self._blocks.pop()
        self._blocks.append(_compress(step, times, rows))


def _compress(step: float, times: array[float], rows: list[bytes]) -> _Block:
    return _Block(step, times, len(rows[0]), zlib.compress(b"".join(rows), 1))
