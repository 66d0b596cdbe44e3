"""Computes the truth from the load's own records.

A request is in service from the time when uWSGI takes it from the listen queue until uWSGI closes it. Only uWSGI knows
these times, but two intervals that are known to the nanosecond bound them: the application's (enter to leave) is a
little shorter, and the client's (connected to end) is a little longer, or much longer if the request had to queue.
Concurrency is the integral of the requests in service over a window, divided by its length. The application's intervals
count as the truth; how far the clients' value lies above it bounds the error of this truth.

The clients count completed requests and their workers; a run counts only if no request failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from tools.bench.accuracy.generator import Record

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Truth:
    """The records of one load. Windows are (start, end) in monotonic seconds."""

    records: tuple[Record, ...]
    failures: tuple[str, ...] = ()

    def counts(self) -> dict[int, int]:
        """Returns the requests by worker, over the whole load."""
        return dict(Counter(record.worker for record in self.records))

    def in_application(self, window: tuple[float, float]) -> float:
        """Returns the mean number of requests in the application."""
        return mean_level(((record.enter, record.leave) for record in self.records), window)

    def in_client(self, window: tuple[float, float]) -> float:
        """Returns the mean number of requests that clients waited for, including those in the listen queue."""
        return mean_level(((record.connected, record.end) for record in self.records), window)

    def completed(self, window: tuple[float, float]) -> float:
        """Returns concurrency by Little's law: application time of the requests that ended in the window, divided by
        its length."""
        time = sum(record.leave - record.enter for record in self._ended(window))
        return time / SECOND / (window[1] - window[0])

    def client_time(self, window: tuple[float, float]) -> float:
        """Mean seconds from connected to end of requests that ended in the window."""
        return fmean((record.end - record.connected) / SECOND for record in self._ended(window))

    def wait(self, window: tuple[float, float]) -> float:
        """Mean seconds from connected to enter, of requests that ended in the window."""
        return fmean((record.enter - record.connected) / SECOND for record in self._ended(window))

    def connecting(self, window: tuple[float, float]) -> float:
        """Mean seconds in connect(2): with a full queue, a client waits there, outside the queue."""
        return fmean((record.connected - record.connecting) / SECOND for record in self._ended(window))

    def _ended(self, window: tuple[float, float]) -> list[Record]:
        start, end = window
        return [record for record in self.records if start < record.leave / SECOND <= end]


def mean_level(intervals: Iterable[tuple[int, int]], window: tuple[float, float]) -> float:
    """Returns how many intervals (in nanoseconds) cover a moment of the window (in seconds), on average."""
    start, end = round(window[0] * SECOND), round(window[1] * SECOND)
    covered = sum(max(0, min(late, end) - max(early, start)) for early, late in intervals)
    return covered / (end - start)
