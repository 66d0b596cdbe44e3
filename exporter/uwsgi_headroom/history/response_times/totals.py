"""The completed requests of a server by response time: in total, and of each batch of the last hour."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import add
from typing import NamedTuple

from msgspec import Struct

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.response_times.bins import Bins
from uwsgi_headroom.history.response_times.estimator import Division

_LEAST = 1e-4
"""The first and the last bins of a batch are not kept in the history if they have fewer requests."""

_SPARE_SECONDS = 60.0
"""Time after which old batches are deleted, together."""

ROUNDING = 1e-6
"""Requests by which a sum of expected numbers may miss a whole number."""


class Misses(NamedTuple):
    """Requests that count for an objective, and those that missed it, by reason; expected numbers, each counted once.
    requests: all of them, also those that were lost, refused, or are still in service beyond the threshold."""

    requests: float = 0
    slow: float = 0.0
    waited: float = 0.0
    lost: float = 0.0
    refused: float = 0.0

    @property
    def missed(self) -> float:
        return self.slow + self.waited + self.lost + self.refused


class MissCounter:
    """Counts the misses of one server batch by batch. `total` never decreases. threshold: seconds; one of the bounds of
    the bins.

    The metrics, the alerts on them, the API, the page and a report all take this count. A request has missed the
    objective if

    * it took longer in service than the threshold (`slow`). One that is still in service for longer has missed it
      already;
    * it was quick enough in service, but not together with the wait in the listen queue before (`waited`). How long
      requests waited in a batch (5 s) is known, but not which of them were slow in service: both are taken to be
      independent. Where single waits are not known, each is taken to have waited the mean of its batch;
    * it was lost with its worker (`lost`), unless it had been in service beyond the threshold before;
    * the kernel dropped its connection at this server's full queue (`refused`). A client tries again after 1 s, then
      2 s, and each attempt counts, as a request and as a miss. Nothing counts refusals at a UNIX socket.

    A request in service beyond the threshold is counted when it gets there; what ends later is subtracted from what was
    counted so. Some of these turn out to be no requests: a client that connects and sends nothing occupies a thread,
    and uWSGI never counts it. They are owed, and make up for the next misses. What ends with a worker or a reload is
    not.
    """

    def __init__(self, threshold: float, bins: Bins) -> None:
        self.threshold = threshold
        self.total = Misses()
        self._bins = bins
        self._overdue = 0
        self._owed = 0.0

    def add(
        self,
        requests: int,
        counts: Sequence[float],
        *,
        lost: int,
        refused: int,
        waits: Sequence[tuple[float, float]],
        overdue: int,
        joined: bool,
    ) -> Misses:
        """Add a batch, and return what it adds. requests: completed; counts: these by bin (empty without requests);
        waits: seconds in the listen queue, with the share of the requests that waited so long; overdue: requests that
        are in service at its end, and have been for longer than the threshold. joined: whether every request in service
        at its start was followed to its end or lost with its worker; if not, as after a reload, what has disappeared
        has missed."""
        slow = sum(counts[self._bins.find(self.threshold) + 1 :])
        waited = sum([share * max(0.0, self._count_late(requests, counts, wait) - slow) for wait, share in waits])
        began, self._overdue = overdue - self._overdue, overdue
        change = slow + began - self._owed
        counted = requests + lost + began - self._owed
        debt = max(0.0, -change)
        slow = max(0.0, change)
        from_lost = min(debt, lost)
        from_waited = min(debt - from_lost, waited)
        rest = debt - from_lost - from_waited
        self._owed = rest if joined else 0.0
        added = Misses(
            requests=max(0.0, counted + rest, slow + waited - from_waited + lost - from_lost) + refused,
            slow=slow,
            waited=waited - from_waited,
            lost=lost - from_lost,
            refused=refused,
        )
        self.total = Misses(*map(add, self.total, added))
        return added

    def _count_late(self, requests: int, counts: Sequence[float], wait: float) -> float:
        """Completed requests that would take longer than the threshold with this wait before them."""
        left = self.threshold - wait
        if left <= 0:
            return float(requests)
        return sum(counts[self._bins.find(left) + 1 :])


class ResponseTimeTotals(Struct):
    """Requests without static ones since the first sample, until the end of the last batch. expected: the expected
    number in each bin and all below it; whole: the same as whole numbers, which never decrease; seconds: the sum of
    their response times; lost: requests in service that ended with their worker's process."""

    bins: Bins
    expected: list[float]
    whole: list[int]
    requests: int = 0
    seconds: float = 0.0
    lost: int = 0

    def add(self, requests: int, division: Division) -> None:
        self.requests += requests
        self.expected = list(map(add, self.expected, accumulate(division.counts)))
        # With very many requests, rounding errors exceed whole requests.
        self.whole = [
            max(before, min(before + requests, int(expected + ROUNDING)))
            for before, expected in zip(self.whole, self.expected, strict=True)
        ]

    def count_up_to(self, bound: float) -> int:
        """The expected number of requests up to one of the bounds of the bins, as a whole number."""
        return self.whole[self.bins.find(bound)]


class RequestBatch(NamedTuple):
    """The requests of a batch. interval: the mean time between two samples; first: the first bin with requests; values:
    from that bin to the last one with requests, the expected numbers, then the variances of the number in each bin and
    all below it (one array takes less memory than two); misses: what it adds to the count of an objective; running: the
    sum of the response times, by uWSGI's own count in seconds, None if unknown."""

    seconds: float
    interval: float
    requests: int
    lost: int
    first: int
    values: array[float]
    misses: Misses
    running: float | None


class ResponseTimeWindow(Struct, frozen=True):
    """The requests of the batches that ended in some time. interval: the mean time between two samples; counts: the
    expected number of requests in each bin; doubt: the variance of the number of requests in that bin and all below it;
    running: as in `RequestBatch`."""

    bins: Bins
    interval: float
    requests: int
    counts: Sequence[float]
    doubt: Sequence[float]
    running: float | None = None


class SlowRequests(NamedTuple):
    """Requests of some seconds by how they kept an objective (`misses`). requests: completed, or in service beyond the
    threshold; slower: how many of these took longer, an expected number; lost: with their workers; waited: those that
    missed it for the wait in the queue before."""

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
        self._batches: list[RequestBatch] = []
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
        places = [place for place, count in enumerate(division.counts) if count >= _LEAST] or [0]
        first, end = places[0], places[-1] + 1
        values = array("f", [*division.counts[first:end], *division.doubt[first:end]])
        self._batches.append(RequestBatch(seconds, interval, requests, lost, first, values, misses, running))
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

    def _between(self, start: float, until: float) -> list[RequestBatch]:
        return self._batches[bisect_right(self._ends, start) : bisect_right(self._ends, until)]
