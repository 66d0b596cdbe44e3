"""Computes percentiles of response times, with an interval each, from the requests by bin.

The interval contains the true percentile of the requests that were completed in the window in 19 of 20 cases
(`tests/history/response_times/test_accuracy.py`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate
from operator import add, mul, sub
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from uwsgi_headroom.history.response_times.bins import END
from uwsgi_headroom.history.response_times.totals import ResponseTimeWindow

SHARES = (0.5, 0.9, 0.95, 0.99)
"""The percentiles, as shares of the requests that are not slower."""

RESOLUTION = 0.8
"""Samples determine no percentile below this part of the time between two of them."""

_WEAK, _UNSURE = 1.5, 2.0
"""In times between two samples: below the first, samples give no lower bound; below the second, the interval is wider
on both sides by _WIDER."""

_WIDER = 0.25
"""In times between two samples."""

_LEAST_SLOWER = 1.0
"""Fewest requests above a percentile: the 99th needs a hundred requests."""

_NEGLIGIBLE = 0.05
"""The expected number of slower requests below which there is taken to be none: one case of twenty."""

_SPREAD = 1.96 * math.sqrt(6.0)
"""Standard deviations on each side of an interval for 19 of 20 cases. By simulation, the variance of a division that
takes the estimate as certain is 2 to 6 times too small."""


class Percentile(Struct, frozen=True, kw_only=True):
    """A percentile of the response times in seconds. share: of the requests that are not slower, such as 0.95. seconds:
    the estimate; null if the samples only show that it is below `under`. low, high: in 19 of 20 cases, the percentile
    is between them; low is 0 where the samples show no lower bound."""

    share: float
    seconds: float | None
    low: float
    high: float
    under: float | None = None


class ResponseTimes(Struct, frozen=True, kw_only=True):
    """Response times inside uWSGI over the window, without the wait in a listen queue and without static files; or the
    waits in listen queues, of all requests. requests: completed. interval: seconds between two samples, on which it
    depends what can be known. A percentile with too few requests (the 99th needs 100) is missing."""

    requests: int
    interval: float
    percentiles: tuple[Percentile, ...]


def find_percentile(times: ResponseTimes | None, share: float) -> Percentile | None:
    """Find a percentile, such as 0.95; None if it is not known."""
    percentiles = times.percentiles if times else ()
    return next((each for each in percentiles if abs(each.share - share) < 1e-6), None)


FAR_SLOWER = 10.0
"""Requests are of another kind if they take at least so many times as long as half of all."""


class Slow(NamedTuple):
    """The requests that are far slower than half of all: an expected number; seconds of each, and of all, at least.
    half: the seconds that half of all take at most."""

    number: float
    least: float
    seconds: float
    half: float


def compute_percentiles(window: ResponseTimeWindow | None, mean: float | None = None) -> ResponseTimes | None:
    """The percentiles of a window; None without completed requests. mean: of the response times."""
    if window is None or not window.requests:
        return None
    distribution, interval = _Distribution(window), window.interval
    percentiles = [
        _limit(distribution.percentile(share, interval), _find_most(window, share, mean), interval)
        for share in SHARES
        if window.requests * (1 - share) >= _LEAST_SLOWER - 1e-9
    ]
    return ResponseTimes(requests=window.requests, interval=interval, percentiles=tuple(percentiles))


def find_slow(window: ResponseTimeWindow | None, times: ResponseTimes | None) -> Slow | None:
    """The requests of a window that are far slower than half of all; None without any. times: its percentiles."""
    half = find_percentile(times, 0.5)
    if window is None or half is None:
        return None
    first = window.bins.find(FAR_SLOWER * half.high) + 1
    places = [place for place, number in enumerate(window.counts[first:], first) if number > _NEGLIGIBLE]
    if not places:
        return None
    numbers, least = ([window.counts[place] for place in places], [window.bins.edges_of(place)[0] for place in places])
    return Slow(sum(numbers), least[0], sum(map(mul, numbers, least)), half.high)


def _find_most(window: ResponseTimeWindow, share: float, mean: float | None) -> float:
    """The most that a percentile can be, by A. Markov's inequality: all the slower ones took at least as long."""
    most = mean / (1 - share) if mean else math.inf
    if not window.running:
        return most
    faster = math.ceil(share * window.requests - 1e-9) - 1
    return min(most, window.running / (window.requests - faster))


def _limit(percentile: Percentile, most: float, interval: float) -> Percentile:
    if percentile.high <= most:
        return percentile
    if percentile.seconds is None or most < RESOLUTION * interval:
        return replace(percentile, seconds=None, low=0.0, high=most, under=most)
    return replace(percentile, seconds=min(percentile.seconds, most), low=min(percentile.low, most), high=most)


class _Distribution:
    """The numbers of requests up to each bin: as estimated, at most and at least."""

    def __init__(self, window: ResponseTimeWindow) -> None:
        self._bins = window.bins
        end = len(window.counts)
        while end and not window.counts[end - 1] and not window.doubt[end - 1]:
            end -= 1
        # All bins after the slowest request are alike, so that one of them stands for all.
        counts, doubt = window.counts[: end + 1], window.doubt[: end + 1]
        self._estimated = list(accumulate(counts))
        margins = [_SPREAD * math.sqrt(variance) + 0.5 if variance else 0.5 for variance in doubt]
        self._most = list(accumulate(map(add, self._estimated, margins), max))
        self._least = list(accumulate(map(sub, self._estimated, margins), max))

    def percentile(self, share: float, interval: float) -> Percentile:
        """The percentile at a share of the requests. interval: seconds between two samples."""
        estimated, wanted = self._estimated, share * self._estimated[-1]
        place = bisect_left(estimated, wanted)
        below = estimated[place - 1] if place else 0.0
        start, end = self._edges_of(place)
        seconds = start + (end - start) * (wanted - below) / (estimated[place] - below)
        low, _ = self._edges_of(bisect_left(self._most, wanted))
        highest = bisect_left(self._least, wanted)
        if highest == len(estimated):
            highest = bisect_left(estimated, estimated[-1] - _NEGLIGIBLE)
        _, high = self._edges_of(highest)
        if seconds < _UNSURE * interval:
            low, high = low - _WIDER * interval, high + _WIDER * interval
        finest = RESOLUTION * interval
        if seconds < finest:
            high = max(finest, high)
            return Percentile(share=share, seconds=None, low=0.0, high=high, under=high)
        is_bounded = seconds >= _WEAK * interval and low >= finest
        return Percentile(share=share, seconds=seconds, low=low * is_bounded, high=max(high, seconds))

    def _edges_of(self, place: int) -> tuple[float, float]:
        low, high = self._bins.edges_of(place)
        return low, min(high, END)
