"""When to read a server: often enough to see what happens between scrapes, never so often that it costs.

* The pause between samples is jittered by a fifth either way, so that no periodic load can hide between them.
* Reading may take at most 1 % of the time: where a read is slow (a large document), the interval stretches. The median
  of the last reads counts, so that one second in which the master does not answer leaves the interval as it is.
  Whatever it says, a server is left alone for as long as its last read took.
* A server that cannot be read is tried once a second, and ever more seldom, down to once in fifteen.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from statistics import median

from uwsgi_headroom.config.defaults import DEFAULT_SAMPLES_PER_SECOND
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.watch.reader import Reader

JITTER = 0.2
BUDGET = 0.01
"""The part of the time that reading one server may take."""

RETRY_SECONDS = (1.0, 15.0)
"""The first and the longest pause between attempts at a server that cannot be read."""

_READS_REMEMBERED = 15


class Pace:
    """The pauses between the samples of one server. `chance` gives numbers from 0 to 1, evenly."""

    def __init__(
        self, samples_per_second: float = DEFAULT_SAMPLES_PER_SECOND, chance: Callable[[], float] = random.random
    ) -> None:
        self._wanted = 1 / samples_per_second
        self._chance = chance
        self._reads: deque[float] = deque([0.0] * _READS_REMEMBERED, maxlen=_READS_REMEMBERED)
        self._failures = 0

    @property
    def interval(self) -> float:
        """Mean seconds from one sample to the next: as wanted, or as the budget allows."""
        return max(self._wanted, self._read_seconds / BUDGET)

    @property
    def duty(self) -> float:
        """The part of the time that reading takes."""
        return self._read_seconds / self.interval

    @property
    def longest_step(self) -> float:
        """Seconds between two samples beyond which what happened in between is not known."""
        return max(1.0, 3 * self.interval)

    def pause(self, outcome: Reading | ReadError) -> float:
        """Seconds to wait after a read that brought this."""
        if isinstance(outcome, ReadError):
            self._failures += 1
            first, longest = RETRY_SECONDS
            return min(longest, first * 2.0 ** (min(self._failures, 10) - 1))
        self._failures = 0
        self._reads.append(outcome.read_seconds)
        jittered = self.interval * (1 + JITTER * (2 * self._chance() - 1))
        return max(jittered - outcome.read_seconds, outcome.read_seconds)

    @property
    def _read_seconds(self) -> float:
        return median(self._reads)


async def sample(reader: Reader, pace: Pace) -> None:
    """Read a server again and again, until cancelled. What is read goes where the reader sends it."""
    while True:  # noqa: ASYNC110 - there is no event to wait for but the time
        await asyncio.sleep(pace.pause(await reader.read()))
