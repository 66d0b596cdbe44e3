"""What really happened, from the load's own records.

A request is in service from when uWSGI takes it from the listen queue to when it closes it. Nobody outside uWSGI sees
these instants, but they lie between two intervals that are both known to the nanosecond: the application's own (enter
to leave), which is a little less, and the client's (connected to end), which is a little more, and much more where the
request had to queue. Concurrency is the integral of the requests in service over a window, divided by its length; its
truth here is the application's, and how far the client's lies above it is how little it may be trusted.

Requests completed and their workers are counted by the clients; a run counts only if none failed.
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
        """Requests by worker, over the whole of the load."""
        return dict(Counter(record.worker for record in self.records))

    def in_application(self, window: tuple[float, float]) -> float:
        """Mean requests in the application."""
        return mean_level(((record.enter, record.leave) for record in self.records), window)

    def in_client(self, window: tuple[float, float]) -> float:
        """Mean requests that clients waited for, the listen queue included."""
        return mean_level(((record.connected, record.end) for record in self.records), window)

    def completed(self, window: tuple[float, float]) -> float:
        """Concurrency by Little's law: the time in the application of requests that ended in the window, over it."""
        time = sum(record.leave - record.enter for record in self._ended(window))
        return time / SECOND / (window[1] - window[0])

    def client_time(self, window: tuple[float, float]) -> float:
        """Mean seconds from connected to end of requests that ended in the window."""
        return fmean((record.end - record.connected) / SECOND for record in self._ended(window))

    def wait(self, window: tuple[float, float]) -> float:
        """Mean seconds from connected until the application was entered."""
        return fmean((record.enter - record.connected) / SECOND for record in self._ended(window))

    def connecting(self, window: tuple[float, float]) -> float:
        """Mean seconds that connecting took: where the queue is full, a client waits here and no queue has it."""
        return fmean((record.connected - record.connecting) / SECOND for record in self._ended(window))

    def _ended(self, window: tuple[float, float]) -> list[Record]:
        start, end = window
        return [record for record in self.records if start < record.leave / SECOND <= end]


def mean_level(intervals: Iterable[tuple[int, int]], window: tuple[float, float]) -> float:
    """How many intervals (in nanoseconds) covered a moment of the window, on average."""
    start, end = round(window[0] * SECOND), round(window[1] * SECOND)
    covered = sum(max(0, min(late, end) - max(early, start)) for early, late in intervals)
    return covered / (end - start)
