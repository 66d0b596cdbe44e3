"""Keeps the rows of a history: the newest as they are, older ones compressed in blocks, and fewer of them with age.

Successive rows differ little, so a block takes about a sixth of its rows. A row of the last minute costs nothing to
read; an older one costs the decompression of its block, some 40 microseconds.
"""

from __future__ import annotations

import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from uwsgi_headroom.config.defaults import HISTORY_SECONDS

ROW_SECONDS = 1.0

TIERS = ((360.0, ROW_SECONDS), (960.0, 5.0), (HISTORY_SECONDS, 15.0))
"""Up to which age, in seconds, rows of which step are kept: as charts of 5 minutes, 15 minutes and an hour need."""

_BLOCK_ROWS = 30
_PLAIN_ROWS = 65


def finest_step(age: float) -> float:
    """The shortest time between two rows as old as this, in seconds."""
    return next((step for longest, step in TIERS if age <= longest), TIERS[-1][1])


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows of one size. step: the time between them; size: bytes of each."""

    step: float
    times: array[float]
    size: int
    compressed: bytes

    def rows(self) -> list[bytes]:
        joined = zlib.decompress(self.compressed)
        return [joined[start : start + self.size] for start in range(0, len(joined), self.size)]


class RowBlocks:
    """The rows of the last hour, all of one size. times: of every row that is kept, ascending, in monotonic seconds."""

    def __init__(self) -> None:
        self.times = array("d")
        self._blocks: list[_Block] = []
        self._starts = [0]  # the place of the first row of each block, and that of the first plain row
        self._rows: list[bytes] = []

    def append(self, at: float, row: bytes) -> None:
        """Add a row that is newer than all others."""
        self.times.append(at)
        self._rows.append(row)
        if len(self._rows) >= _PLAIN_ROWS + _BLOCK_ROWS:
            self._pack(at)

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, place: int) -> bytes:
        return next(self.rows(place, place + 1))

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
