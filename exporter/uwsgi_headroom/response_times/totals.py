"""The completed requests of a server by response time: in total, and of each batch of the last hour."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import add
from typing import NamedTuple

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.response_times.bins import Bins
from uwsgi_headroom.response_times.estimator import Division
from uwsgi_headroom.response_times.misses import Misses

_LEAST = 1e-4
"""The first and the last bins of a batch are not kept in the history if they have fewer requests."""

_SPARE_SECONDS = 60.0
"""Time after which old batches are deleted, together."""

_ROUNDING = 1e-6
"""Requests by which a sum of expected numbers may miss a whole number."""


@dataclass(slots=True)
class ResponseTimeTotals:
    """Requests without static ones since the first sample, until the end of the last batch."""

    bins: Bins
    expected: list[float]
    """The expected number in each bin and all below it."""
    whole: list[int]
    """The same as whole numbers, which never decrease."""
    requests: int = 0
    seconds: float = 0.0
    """The sum of their response times."""
    lost: int = 0
    """Requests in service that ended with their worker's process."""

    def add(self, requests: int, division: Division) -> None:
        """Add the completed requests of a batch."""
        self.requests += requests
        self.expected = list(map(add, self.expected, accumulate(division.counts)))
        # With very many requests, rounding errors exceed whole requests.
        self.whole = [
            max(before, min(before + requests, int(expected + _ROUNDING)))
            for before, expected in zip(self.whole, self.expected, strict=True)
        ]

    def count_up_to(self, bound: float) -> int:
        """The expected number of requests up to one of the bounds of the bins, as a whole number."""
        return self.whole[self.bins.find(bound)]

    def copy(self) -> ResponseTimeTotals:
        """A copy that later batches do not change."""
        return replace(self)


class Batch(NamedTuple):
    """The requests of a batch, which ended at the monotonic time `at`."""

    at: float
    seconds: float
    interval: float
    """The mean time between two samples."""
    requests: int
    lost: int
    first: int
    """The first bin with requests."""
    values: array[float]
    """From that bin to the last one with requests, the expected numbers, then the variances of the number in each bin
    and all below it. One array takes less memory than two."""
    misses: Misses = Misses()
    """What it adds to the count of an objective."""
    running: float | None = None
    """The sum of the response times, by uWSGI's own count in seconds; None if unknown."""

    @property
    def counts(self) -> array[float]:
        return self.values[: len(self.values) // 2]

    @property
    def doubt(self) -> array[float]:
        return self.values[len(self.values) // 2 :]


@dataclass(frozen=True, slots=True)
class ResponseTimeWindow:
    """The requests of the batches that ended in some time."""

    bins: Bins
    interval: float
    """The mean time between two samples."""
    requests: int
    counts: Sequence[float]
    """The expected number of requests in each bin."""
    doubt: Sequence[float]
    """The variance of the number of requests in that bin and all below it."""
    running: float | None = None
    """The sum of their response times, by uWSGI's own count in seconds; None if unknown."""


class SlowRequests(NamedTuple):
    """Requests of some time, `seconds` long, by how they kept an objective (`misses`): how many were completed, or are
    in service beyond the threshold; how many of these were slower (an expected number); how many were lost with their
    workers; how many missed it because of the wait in the queue before; and how many were refused."""

    seconds: float
    requests: int
    slower: float
    lost: int
    waited: float = 0.0
    refused: int = 0


class BatchHistory:
    """The batches of the last hour."""

    def __init__(self, bins: Bins) -> None:
        self.bins = bins
        self._batches: list[Batch] = []
        self._ends: list[float] = []

    def add(
        self,
        at: float,
        seconds: float,
        interval: float,
        requests: int,
        lost: int,
        division: Division,
        misses: Misses = Misses(),  # noqa: B008 - a constant
        running: float | None = None,
    ) -> None:
        """Add a batch, and forget those that are older than an hour. interval: the mean time between two samples;
        running: the sum of the response times, None if unknown."""
        places = [place for place, count in enumerate(division.counts) if count >= _LEAST] or [0]
        first, end = places[0], places[-1] + 1
        values = array("f", [*division.counts[first:end], *division.doubt[first:end]])
        self._batches.append(Batch(at, seconds, interval, requests, lost, first, values, misses, running))
        self._ends.append(at)
        if at - self._ends[0] > HISTORY_SECONDS + _SPARE_SECONDS:
            old = bisect_left(self._ends, at - HISTORY_SECONDS)
            del self._batches[:old], self._ends[:old]

    @property
    def ended(self) -> float:
        """The monotonic time at which the last batch ended; -inf before."""
        return self._ends[-1] if self._ends else float("-inf")

    def window(self, start: float, until: float) -> ResponseTimeWindow | None:
        """The batches that ended after `start`, until `until` (monotonic seconds); None if there are none."""
        batches = self._between(start, until)
        if not batches:
            return None
        counts, doubt = [0.0] * len(self.bins), [0.0] * len(self.bins)
        running = [batch.running for batch in batches if batch.requests]
        for batch in batches:
            if not any(batch.values):  # nothing was completed, as in most batches of most servers
                continue
            length = len(batch.values) // 2
            first, end = batch.first, batch.first + length
            counts[first:end] = map(add, counts[first:end], batch.values)  # which begins with the counts
            doubt[first:end] = map(add, doubt[first:end], batch.values[length:])
        return ResponseTimeWindow(
            bins=self.bins,
            interval=sum([batch.interval for batch in batches]) / len(batches),
            requests=sum([batch.requests for batch in batches]),
            counts=counts,
            doubt=doubt,
            running=None if None in running else sum(seconds or 0.0 for seconds in running),
        )

    def slow_requests(self, start: float, until: float) -> SlowRequests | None:
        """The requests of the same batches by how they kept the objective; None if there are no batches."""
        batches = self._between(start, until)
        if not batches:
            return None
        misses = Misses(*map(sum, zip(*[batch.misses for batch in batches], strict=True)))
        # A lost request that had been in service beyond the threshold is among the slow ones of the count.
        lost = sum([batch.lost for batch in batches])
        refused = round(misses.refused)
        return SlowRequests(
            seconds=sum([batch.seconds for batch in batches]),
            requests=max(0, round(misses.requests) - lost - refused),
            slower=max(0.0, misses.slow + misses.lost - lost),
            lost=lost,
            waited=misses.waited,
            refused=refused,
        )

    def _between(self, start: float, until: float) -> list[Batch]:
        return self._batches[bisect_right(self._ends, start) : bisect_right(self._ends, until)]
