"""Decides when to read a server: often enough to see events between scrapes, but not so often that uWSGI notices.

* The pause between samples has a jitter of one fifth either way, so that periodic load cannot hide between samples.
* Receiving documents takes at most 1 % of the time, up to the longest interval: if a transfer is slow, because the
  document is large, the interval stretches. The time before the master begins to answer does not count: it then does
  other work. The median over the reads of the last seconds counts, so that one slow read changes nothing, and a slow
  minute is soon forgotten.
* Sampling all servers takes at most a share of a CPU (`CpuBudget`).
* No interval is longer than 4 s, whatever reading costs, since longer intervals show too little. `duty` then exceeds
  the budget. Only a sample that costs much CPU time, as of a huge document, may stretch it further.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import NoReturn

from uwsgi_headroom.config.defaults import DEFAULT_SAMPLES_PER_SECOND
from uwsgi_headroom.errors import BlindError, ReadError
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.watch.reader import GONE, Reader

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
"""First and longest of the growing pauses after failed reads."""

GONE_PAUSE = (0.25, 0.125)
"""Where nobody listens, as while uWSGI reloads, and an attempt costs uWSGI nothing: the shortest pause in seconds, and
the pause as a part of the time for which nobody has listened so far. So samples see the requests that waited meanwhile:
after three seconds, serving them takes about one."""

GAP_SECONDS = 0.2
"""The pause where uWSGI answers with nothing, which costs it less than a document: between two requests that it cannot
parse, it answers again."""

_READS_REMEMBERED = 15

_FEWEST_READS = 4  # before reads are judged: the first may be slow because the exporter is starting

_REMEMBERED_SECONDS = 20.0

_log = logging.getLogger(__name__)


class Sampler:
    """Reads a server repeatedly, by callbacks of the event loop alone. The reader passes on each outcome; `then` is
    called after each."""

    def __init__(self, reader: Reader, pace: Pace, lag: LoopLag, then: Callable[[], None] = lambda: None) -> None:
        self._reader, self._pace, self._lag, self._then = reader, pace, lag, then
        self._warned = False
        self._due = 0.0

    async def run(self) -> NoReturn:
        """Sample until cancelled. Raises an internal error."""
        self._loop = asyncio.get_running_loop()
        self._failure: asyncio.Future[NoReturn] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._reader.begin(self._take)
        try:
            await self._failure
        finally:
            self._reader.forget(self._take)
            if self._timer:
                self._timer.cancel()

    def _begin(self) -> None:
        self._lag.note_due(self._due)
        try:
            self._reader.begin(self._take)
        except Exception as error:  # noqa: BLE001 - it ends the task, which starts again
            self._fail(error)

    def _take(self, outcome: Reading | ReadError) -> None:
        try:
            pause = self._pace.pause(outcome)
            self._then()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
            return
        if self._pace.exceeds_budget and not self._warned:
            self._warned = True
            duty, interval = f"{self._pace.duty:.3f}", f"{self._pace.interval:g}"
            fields = {"server": self._reader.name, "duty": duty, "interval": interval}
            _log.warning("reads take more of the uWSGI master's time than intended", extra={"fields": fields})
        self._due = self._lag.monotonic() + pause
        self._timer = self._loop.call_later(pause, self._begin)

    def _fail(self, error: Exception) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)


class Pace:
    """The pauses between the samples of one server. chance: returns random numbers, uniform from 0 to 1; budget:
    of all servers, without one its own."""

    def __init__(
        self,
        samples_per_second: float = DEFAULT_SAMPLES_PER_SECOND,
        chance: Callable[[], float] = random.random,
        budget: CpuBudget | None = None,
    ) -> None:
        self.budget = budget or CpuBudget(time.monotonic)
        self.set_rate(samples_per_second)
        self._chance = chance
        self._transfers: deque[tuple[float, float]] = deque(maxlen=_READS_REMEMBERED)  # (when, seconds)
        self._usual_seconds = 0.0  # the median of the transfers, once there are enough
        self._failures = 0
        self._spent = 0.0  # CPU seconds since the last pause
        self._cost: float | None = None  # CPU seconds of a sample
        self._gone_seconds = 0.0  # the sum of the pauses since nobody listens

    def set_rate(self, samples_per_second: float) -> None:
        self._wanted = 1 / samples_per_second

    def note_cpu(self, seconds: float) -> None:
        self._spent += seconds

    @property
    def interval(self) -> float:
        """Mean seconds between samples: as configured, or longer for the budgets, but at most LONGEST_INTERVAL, or the
        longest of COSTLY."""
        return self._unstretched * self.stretch

    @property
    def _unstretched(self) -> float:
        return min(LONGEST_INTERVAL, max(self._wanted, self._usual_seconds / BUDGET))

    @property
    def stretch(self) -> float:
        """The factor by which CPU time stretches the interval."""
        return self._stretch(self._unstretched)

    def _stretch(self, interval: float) -> float:
        if not self._cost:
            return 1.0
        costly, longest = COSTLY
        most = (longest if self._cost >= costly else LONGEST_INTERVAL) / interval
        cost = self.budget.cost
        return max(1.0, min(most, (self._cost / cost) ** 2 if cost else most))

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
        jitter = 1 + JITTER * (2 * self._chance() - 1)
        if isinstance(outcome, BlindError) and outcome.pid:
            self._add_cost(GAP_SECONDS)
            return GAP_SECONDS * jitter
        if isinstance(outcome, ReadError):
            pause = self._pause_after_failure(outcome)
            self._add_cost(pause)
            return pause * self._stretch(pause)
        self._failures, self._gone_seconds = 0, 0.0
        self._transfers.append((outcome.at, outcome.transfer_seconds))
        while outcome.at - self._transfers[0][0] > _REMEMBERED_SECONDS:
            self._transfers.popleft()
        self._usual_seconds = median(self._seconds) if len(self._transfers) >= _FEWEST_READS else 0.0
        self._add_cost(self._unstretched)
        # Wait at least as long as the read took, but not longer than the configured interval.
        return max(self.interval * jitter - outcome.read_seconds, min(outcome.read_seconds, self._wanted))

    def _pause_after_failure(self, error: ReadError) -> float:
        first, longest = RETRY_SECONDS
        if error.reason in GONE:
            shortest, part = GONE_PAUSE
            pause = min(longest, max(shortest, self.interval, part * self._gone_seconds))
            self._gone_seconds += pause
            return pause
        self._failures += 1
        return min(longest, first * 2.0 ** (min(self._failures, 10) - 1))

    def _add_cost(self, interval: float) -> None:
        """The first sample, which learns most, does not count."""
        spent, self._spent = self._spent, 0.0
        if self._cost is None:
            spent = 0.0
        cost = self._cost or spent
        self._cost = cost + _COST_WEIGHT * (spent - cost)
        self.budget.note(self, self._cost, interval)

    @property
    def _seconds(self) -> list[float]:
        return [seconds for _, seconds in self._transfers]


MOST_CPU = 0.25
"""The share of a CPU that decoding documents, asking the kernel and keeping figures may take. Receiving documents and
the event loop take nearly as much again."""

PERIOD_SECONDS = 1.0
"""Time between two decisions on how the servers share this CPU time, in seconds."""

COSTLY = (0.01, 60.0)
"""From this CPU time of a sample on, in seconds, CPU time may stretch an interval to this many seconds instead of
LONGEST_INTERVAL: such a document is huge or hostile. 64 workers of 16 threads take some 6 ms."""

_COST_WEIGHT = 0.3
"""The weight of the latest sample in what a sample of a server costs."""

_FORGET_SECONDS = 2 * COSTLY[1]

_WORTH_A_LINE = 1.2


LOOKS_AT_ONCE = 2
"""Most looks at code (`--code`) at the same time, of all servers together. The first look at a server takes the
longest, and after a start each server has its first."""


class CpuBudget:
    """Shares `most` of a CPU among the servers, so that those whose samples cost little keep their pace: where that is
    not enough, an interval stretches with the square of the part by which a sample costs more than `cost`, so half of
    `cost` changes nothing, and ten times as much stretches it a hundredfold. Servers that cost the same yield alike.
    looks: the turns of looks at code, which compute in threads of their own."""

    def __init__(self, monotonic: Callable[[], float], most: float = MOST_CPU) -> None:
        self._monotonic, self._most = monotonic, most
        self._noted: dict[Pace, tuple[float, float, float]] = {}
        self._decided_at = float("-inf")
        self._cost = math.inf
        self._said = False
        self.looks = asyncio.Semaphore(LOOKS_AT_ONCE)

    def note(self, pace: Pace, cost: float, interval: float) -> None:
        """Note the CPU seconds that a sample of a server costs, and the interval without a budget."""
        self._noted[pace] = self._monotonic(), cost, interval

    @property
    def cost(self) -> float:
        """The CPU seconds of a sample up to which no interval is stretched now."""
        now = self._monotonic()
        if now - self._decided_at >= PERIOD_SECONDS:
            self._decided_at = now
            self._noted = {pace: noted for pace, noted in self._noted.items() if now - noted[0] < _FORGET_SECONDS}
            known = sorted((cost, interval) for _, cost, interval in self._noted.values() if cost > 0)
            self._cost = _find_cost(self._most, known)
            self._say(sum(cost**2 > _WORTH_A_LINE * self._cost**2 for cost, _ in known))
        return self._cost

    def _say(self, servers: int) -> None:
        if self._said == bool(servers):
            return
        self._said = bool(servers)
        if servers:
            fields = {"servers": servers, "share_of_a_cpu": self._most}
            _log.warning("sampling servers less often, to limit its CPU time", extra={"fields": fields})
        else:
            _log.info("sampling all servers as often as configured again")


def _find_cost(most: float, known: Sequence[tuple[float, float]]) -> float:
    """The cost from which on intervals stretch, so that all together take `most` of a CPU; infinite if none has to.
    known: cost and interval of each server, the least cost first."""
    rest = sum(1 / (cost * interval) for cost, interval in known)
    for cost, interval in known:
        if cost**2 * rest > most:
            return math.sqrt(max(0.0, most) / rest)
        most -= cost / interval
        rest -= 1 / (cost * interval)
    return math.inf


REMEMBERED_SECONDS = 30.0
"""A lag of the event loop is remembered for so many seconds at least, and twice as many at most: longer than most
scrape intervals."""


class LoopLag:
    """The largest lag of the last seconds, measured at no extra cost by the samplers' pauses."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self._period = 0.0
        self._largest = self._largest_before = 0.0

    def note_due(self, due: float) -> None:
        """Note that what was due at a monotonic time begins now."""
        self._turn()
        self._largest = max(self._largest, self.monotonic() - due)

    @property
    def largest(self) -> float:
        """The largest lag in seconds; 0 without any lag or any sleep."""
        self._turn()
        return max(self._largest, self._largest_before)

    def _turn(self) -> None:
        """Forget lags of two periods ago."""
        period = self.monotonic() // REMEMBERED_SECONDS
        if period != self._period:
            self._largest_before = self._largest if period == self._period + 1 else 0.0
            self._largest, self._period = 0.0, period
