"""Counts the requests that missed a service level objective, each of them once, as its clients saw it.

This is the one count: the metrics, the alerts on them, the API, the page and a report all take it from here. A request
has missed the objective if

* it took longer in service than the threshold (`slow`). One that is still in service for longer has missed it already;
* it was quick enough in service, but not together with the wait in the listen queue before (`waited`). How long
  requests waited in a batch (5 s) is known, but not which of them were slow in service: both are taken to be
  independent. Where single waits are not known, each is taken to have waited the mean of its batch;
* it was lost with its worker (`lost`), unless it had been in service beyond the threshold before;
* the kernel dropped its connection at this server's full queue (`refused`). A client tries again after 1 s, then 2 s,
  and each attempt counts, as a request and as a miss. Nothing counts refusals at a UNIX socket.

A request in service beyond the threshold is counted when it gets there; what ends later is subtracted from what was
counted so. Some of these turn out to be no requests: a client that connects and sends nothing occupies a thread, and
uWSGI never counts it. They are owed, and make up for the next misses. What ends with a worker or a reload is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from uwsgi_headroom.response_times.bins import Bins


class Misses(NamedTuple):
    """Requests that count for an objective, and those that missed it, by reason; expected numbers, each counted once.
    requests: all of them, also those that were lost, refused, or are still in service beyond the threshold."""

    requests: float = 0
    slow: float = 0.0
    waited: float = 0.0
    lost: float = 0.0
    refused: float = 0.0

    def plus(self, other: Misses) -> Misses:
        """The sum."""
        return Misses(*[mine + theirs for mine, theirs in zip(self, other, strict=True)])

    @property
    def missed(self) -> float:
        """All that missed it."""
        return self.slow + self.waited + self.lost + self.refused


class MissCounter:
    """Counts the misses of one server batch by batch. `total` never decreases. threshold: seconds; one of the bounds of
    the bins."""

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
        self.total = self.total.plus(added)
        return added

    def _count_late(self, requests: int, counts: Sequence[float], wait: float) -> float:
        """Completed requests that would take longer than the threshold with this wait before them."""
        left = self.threshold - wait
        if left <= 0:
            return float(requests)
        return sum(counts[self._bins.find(left) + 1 :])
