"""When to read a server: often enough to see what happens between scrapes, never so often that it costs.

* The pause between samples is jittered by a fifth either way, so that no periodic load can hide between them.
* Reading may take at most 1 % of the time of uWSGI's master: where the transfer of a document is slow, because it is
  large, the interval stretches. The time that the master takes before it begins to answer does not count: it does
  something else then. The median of the reads of the last seconds counts, so that a slow one changes nothing, and a
  slow minute is forgotten soon.
* No interval is longer than 4 s, whatever reading costs: a server that is hardly looked at is not watched. `duty` then
  is above the budget.
* A server that cannot be read is tried again after a second, and ever more seldom, down to once in five.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable
from statistics import mean, median

from uwsgi_headroom.config.defaults import DEFAULT_SAMPLES_PER_SECOND
from uwsgi_headroom.errors import ReadError
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.watch.loop_lag import LoopLag
from uwsgi_headroom.watch.reader import Reader

JITTER = 0.2
BUDGET = 0.01
"""The part of the time that reading one server may take."""

LONGEST_INTERVAL = 4.0
"""Seconds from one sample to the next, jitter apart."""

LONGEST_STEP = 5.0
"""Seconds between two samples beyond which what happened in between is never taken to be known."""

RETRY_SECONDS = (1.0, 5.0)
"""The first and the longest pause between attempts at a server that cannot be read."""

_READS_REMEMBERED = 15
_FEWEST_READS = 4  # that say how long reading takes: the first may be slow because the exporter begins
_REMEMBERED_SECONDS = 20.0

_log = logging.getLogger(__name__)


class Pace:
    """The pauses between the samples of one server. `chance` gives numbers from 0 to 1, evenly."""

    def __init__(
        self, samples_per_second: float = DEFAULT_SAMPLES_PER_SECOND, chance: Callable[[], float] = random.random
    ) -> None:
        self._wanted = 1 / samples_per_second
        self._chance = chance
        self._transfers: deque[tuple[float, float]] = deque(maxlen=_READS_REMEMBERED)  # (when, seconds)
        self._failures = 0

    @property
    def interval(self) -> float:
        """Mean seconds from one sample to the next: as wanted, or as the budget allows, LONGEST_INTERVAL at most."""
        seconds = median(self._seconds) if len(self._transfers) >= _FEWEST_READS else 0.0
        return min(LONGEST_INTERVAL, max(self._wanted, seconds / BUDGET))

    @property
    def duty(self) -> float:
        """The part of the time that reading takes, by the reads of the last seconds."""
        return mean(self._seconds) / self.interval if self._transfers else 0.0

    @property
    def exceeds_budget(self) -> bool:
        """Whether reading costs more than the budget although the interval is as long as may be."""
        return self.interval >= LONGEST_INTERVAL and self.duty > BUDGET

    @property
    def longest_step(self) -> float:
        """Seconds between two samples beyond which what happened in between is not known."""
        return min(LONGEST_STEP, max(1.0, 3 * self.interval))

    def pause(self, outcome: Reading | ReadError) -> float:
        """Seconds to wait after a read that brought this."""
        if isinstance(outcome, ReadError):
            self._failures += 1
            first, longest = RETRY_SECONDS
            return min(longest, first * 2.0 ** (min(self._failures, 10) - 1))
        self._failures = 0
        self._transfers.append((outcome.at, outcome.transfer_seconds))
        while outcome.at - self._transfers[0][0] > _REMEMBERED_SECONDS:
            self._transfers.popleft()
        jittered = self.interval * (1 + JITTER * (2 * self._chance() - 1))
        # A server is left alone for as long as it took to answer, but for no longer than it would be otherwise.
        return max(jittered - outcome.read_seconds, min(outcome.read_seconds, self._wanted))

    @property
    def _seconds(self) -> list[float]:
        return [seconds for _, seconds in self._transfers]


async def sample(reader: Reader, pace: Pace, lag: LoopLag) -> None:
    """Read a server again and again, until cancelled. What is read goes where the reader sends it."""
    warned = False
    while True:
        outcome = await reader.read()
        pause = pace.pause(outcome)
        if pace.exceeds_budget and not warned:
            warned = True
            fields = {"server": reader.name, "duty": f"{pace.duty:.3f}", "interval": f"{pace.interval:g}"}
            _log.warning("reading takes more of uWSGI's time than intended", extra={"fields": fields})
        await lag.sleep(pause)
