"""Decides when to read a server: often enough to see events between scrapes, but never so often that uWSGI notices.

* The pause between samples has a jitter of one fifth either way, so that periodic load cannot hide between samples.
* Receiving documents takes at most 1 % of the time, up to the longest interval: if a transfer is slow, because the
  document is large, the interval stretches. The time before the master begins to answer does not count, because the
  master then does other work. The median over the reads of the last seconds counts, so that one slow read changes
  nothing, and a slow minute is soon forgotten.
* Sampling all servers takes at most a share of a CPU (`CpuBudget`): with very many, all intervals stretch alike.
* No interval is longer than 4 s, whatever reading costs, since longer intervals show too little. `duty` then exceeds
  the budget.
* After a failed read, the next attempt follows after one second, then with growing pauses up to five seconds.
* Where nobody listens, as while uWSGI reloads, an attempt costs uWSGI nothing, and pauses are a part of the time that
  it is away: when it is back, the requests that wait in its queue are seen before they are served.

The sleeps between samples also show how late the event loop is (`LoopLag`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from statistics import mean, median

from uwsgi_headroom.config.defaults import DEFAULT_SAMPLES_PER_SECOND
from uwsgi_headroom.errors import ReadError, Reason
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.watch.reader import Reader

JITTER = 0.2

BUDGET = 0.01
"""The share of the time that reading one server may take."""

LONGEST_INTERVAL = 4.0
"""Seconds from one sample to the next, without jitter."""

LONGEST_STEP = 5.0
"""Longest time between two samples, in seconds, that integrals ever bridge."""

LATE_SECONDS = 3.0
"""So much time between two samples is bridged however often samples are taken: a master that ends a worker answers up
to 3 s late, once for each worker. In a storm of harakiris, this happens most of the time."""

RETRY_SECONDS = (1.0, 5.0)
"""First and longest pause after failed reads."""

GONE: frozenset[Reason] = frozenset({"refused", "not_found"})
"""The reasons of failed reads that say at once that nobody listens there."""

GONE_PAUSE = (0.25, 0.125)
"""Where nobody listens: the shortest pause in seconds, and the pause as a part of the time for which nobody has
listened so far. So samples see the requests that waited meanwhile: after three seconds, serving them takes about
one."""

_READS_REMEMBERED = 15

_FEWEST_READS = 4  # before reads are judged: the first may be slow because the exporter is starting

_REMEMBERED_SECONDS = 20.0

_log = logging.getLogger(__name__)


async def sample(reader: Reader, pace: Pace, lag: LoopLag) -> None:
    """Read a server repeatedly until cancelled. The reader passes on each outcome."""
    warned = False
    while True:
        outcome = await reader.read()
        pause = pace.pause(outcome)
        if pace.exceeds_budget and not warned:
            warned = True
            fields = {"server": reader.name, "duty": f"{pace.duty:.3f}", "interval": f"{pace.interval:g}"}
            _log.warning("reads take more of the uWSGI master's time than intended", extra={"fields": fields})
        await lag.sleep(pause)


class Pace:
    """The pauses between the samples of one server. chance: returns random numbers, uniform from 0 to 1; budget:
    of all servers."""

    def __init__(
        self,
        samples_per_second: float = DEFAULT_SAMPLES_PER_SECOND,
        chance: Callable[[], float] = random.random,
        budget: CpuBudget | None = None,
    ) -> None:
        self._budget = budget
        self._wanted = 1 / samples_per_second
        self._chance = chance
        self._transfers: deque[tuple[float, float]] = deque(maxlen=_READS_REMEMBERED)  # (when, seconds)
        self._usual_seconds = 0.0  # the median of the transfers, once there are enough
        self._failures = 0
        self._gone_seconds = 0.0  # the sum of the pauses since nobody listens

    def set_rate(self, samples_per_second: float) -> None:
        """From now on, sample this often, if the budgets permit it."""
        self._wanted = 1 / samples_per_second

    @property
    def interval(self) -> float:
        """Mean seconds between samples: as configured, or longer for the budgets, but at most LONGEST_INTERVAL."""
        wanted = self._wanted * self._budget.factor if self._budget else self._wanted
        return min(LONGEST_INTERVAL, max(wanted, self._usual_seconds / BUDGET))

    @property
    def duty(self) -> float:
        """The share of the time spent reading, over the last seconds."""
        return mean(self._seconds) / self.interval if self._transfers else 0.0

    @property
    def exceeds_budget(self) -> bool:
        """Whether reading exceeds the budget even with the longest interval."""
        return self.interval >= LONGEST_INTERVAL and self.duty > BUDGET

    @property
    def longest_step(self) -> float:
        """Longest time between two samples, in seconds, that integrals bridge now."""
        return min(LONGEST_STEP, max(LATE_SECONDS, 3 * self.interval))

    def pause(self, outcome: Reading | ReadError) -> float:
        """Return the seconds to wait after a read with this outcome."""
        if isinstance(outcome, ReadError):
            first, longest = RETRY_SECONDS
            if outcome.reason in GONE:
                shortest, part = GONE_PAUSE
                pause = min(longest, max(shortest, self.interval, part * self._gone_seconds))
                self._gone_seconds += pause
                return pause
            self._failures += 1
            return min(longest, first * 2.0 ** (min(self._failures, 10) - 1))
        self._failures, self._gone_seconds = 0, 0.0
        self._transfers.append((outcome.at, outcome.transfer_seconds))
        while outcome.at - self._transfers[0][0] > _REMEMBERED_SECONDS:
            self._transfers.popleft()
        self._usual_seconds = median(self._seconds) if len(self._transfers) >= _FEWEST_READS else 0.0
        jittered = self.interval * (1 + JITTER * (2 * self._chance() - 1))
        # Wait at least as long as the read took, but not longer than the configured interval.
        return max(jittered - outcome.read_seconds, min(outcome.read_seconds, self._wanted))

    @property
    def _seconds(self) -> list[float]:
        return [seconds for _, seconds in self._transfers]


MOST_CPU = 0.25
"""The share of a CPU that decoding documents, asking the kernel and keeping figures may take. Receiving documents and
the event loop take nearly as much again."""

PERIOD_SECONDS = 5.0
"""Time between two changes of the factor by which the intervals of all servers are stretched to save CPU, in
seconds."""

MOST_STRETCHED = 16.0
"""The largest such factor: it stretches 0.25 seconds, the shortest interval that uses much CPU, to the longest, 4
seconds."""

MOST_COUNTED_SECONDS = 0.01
"""The CPU time of one sample that counts at most, so that one huge or hostile document does not slow down the sampling
of all other servers. 64 workers of 16 threads take some 6 ms."""

_WORTH_A_LINE = 1.2


LOOKS_AT_ONCE = 2
"""Most looks at code (`--code`) at the same time, of all servers together. The first look at a server takes the
longest, and after a start each server has its first."""


class CpuBudget:
    """The factor by which the sampling intervals of all servers are stretched, at least 1. CPU time is inversely
    proportional to it, so each period multiplies it by the share that was used over `most`, the share that may be.
    looks: the turns of looks at code, which compute in threads of their own."""

    def __init__(self, monotonic: Callable[[], float], most: float = MOST_CPU) -> None:
        self._monotonic, self._most = monotonic, most
        self._began = monotonic()
        self._spent = 0.0
        self._factor = 1.0
        self._said = False
        self.looks = asyncio.Semaphore(LOOKS_AT_ONCE)

    def note(self, seconds: float) -> None:
        """Note CPU time that a sample took."""
        self._spent += min(seconds, MOST_COUNTED_SECONDS)

    @property
    def factor(self) -> float:
        elapsed = self._monotonic() - self._began
        if elapsed >= PERIOD_SECONDS:
            used = self._spent / elapsed / self._most
            self._factor = min(MOST_STRETCHED, max(1.0, self._factor * used))
            self._began, self._spent = self._began + elapsed, 0.0
            self._say()
        return self._factor

    def _say(self) -> None:
        if self._said == (self._factor >= _WORTH_A_LINE):
            return
        self._said = not self._said
        if self._said:
            fields = {"factor": f"{self._factor:.1f}", "share_of_a_cpu": self._most}
            _log.warning("sampling all servers less often, to limit its CPU time", extra={"fields": fields})
        else:
            _log.info("sampling all servers as often as configured again")


REMEMBERED_SECONDS = 30.0
"""A lag of the event loop is remembered for so many seconds at least, and for twice as many at most: longer than most
scrape intervals."""


class LoopLag:
    """The largest lag of the last seconds, measured at no extra cost by the samplers' sleeps."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._period = 0.0
        self._largest = self._largest_before = 0.0

    async def sleep(self, seconds: float) -> None:
        began = self._monotonic()
        await asyncio.sleep(seconds)
        self.note(self._monotonic() - began - seconds)

    def note(self, seconds: float) -> None:
        self._turn()
        self._largest = max(self._largest, seconds)

    @property
    def largest(self) -> float:
        """The largest lag in seconds; 0 without any lag or any sleep."""
        self._turn()
        return max(self._largest, self._largest_before)

    def _turn(self) -> None:
        """Forget lags of two periods ago."""
        period = self._monotonic() // REMEMBERED_SECONDS
        if period != self._period:
            self._largest_before = self._largest if period == self._period + 1 else 0.0
            self._largest, self._period = 0.0, period
