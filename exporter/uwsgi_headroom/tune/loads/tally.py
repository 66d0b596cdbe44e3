"""Counts what the clients of a load see in the measured time."""

from __future__ import annotations

from array import array
from collections import Counter

from uwsgi_headroom.nearest_rank import percentile
from uwsgi_headroom.tune.loads.load import Answers

NOT_SUCCESS = 300
"""The lowest status of redirects and errors."""


class Tally:
    """Counts answers and failures of the measured time."""

    def __init__(self, begin: float, end: float, *, by_start: bool) -> None:
        self._begin, self._end, self._by_start = begin, end, by_start
        self._times = array("d")
        self._errors: Counter[str] = Counter()
        self._statuses: Counter[int] = Counter()

    def _counts(self, began: float, now: float) -> bool:
        return self._begin <= (began if self._by_start else now) < self._end

    def answered(self, began: float, now: float, status: int = 200) -> None:
        """Count an answer by the time from which it counts, and the time of its end."""
        if self._counts(began, now):
            self._times.append(now - began)
            if status >= NOT_SUCCESS:
                self._statuses[status] += 1

    def failed(self, kind: str, began: float, now: float) -> None:
        """Count a request without a proper answer."""
        if self._counts(began, now):
            self._errors[kind] += 1

    def waited_throughout(self, began: float) -> None:
        """Count a request that was without an answer for the whole of the measured time."""
        if began < self._begin:
            self._errors["no answer"] += 1

    def result(self) -> Answers:
        """Return what was counted."""
        times, seconds = sorted(self._times), self._end - self._begin
        if not times:
            return Answers(seconds=seconds, answered=0, errors=dict(self._errors))
        return Answers(
            seconds=seconds,
            answered=len(times),
            errors=dict(self._errors),
            mean=sum(times) / len(times),
            p50=percentile(times, 0.5),
            p95=percentile(times, 0.95),
            p99=percentile(times, 0.99),
            longest=times[-1],
            statuses=dict(self._statuses),
        )
