"""Judges whether a backend is saturated: the more requests are in it at once, the longer each takes.

A backend with room to spare answers as fast with many requests at once; a saturated one completes hardly more of them
(E. D. Lazowska et al., "Quantitative System Performance", 1984, chapter 5). One that is slow for another reason has the
same long times: the load tells them apart. So the slices of the last hour with a low rate of completed requests are
compared with those with a high one. While the load hardly changes, nothing is known.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import fsum, inf, sqrt
from statistics import fmean, variance
from typing import NamedTuple

from msgspec import Struct

from uwsgi_headroom.analysis.littles_law import ratio
from uwsgi_headroom.analysis.wait_states import MOSTLY, WaitFigures
from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.window import Window

SLICE_SECONDS = 2.0
"""Length of a slice as it is kept."""

LEAST_LENGTH = 3.0
"""Slices are joined until each lasts this many times as long as a request in the backend: requests that begin in one
slice and end in the next count in both, which hides the relation."""

LEAST_SLICES = 12
"""The fewest slices that can show a relation."""

APART = 1 / 3
"""The part of the range of the rates that is low, and the part that is high."""

LEAST_OBSERVATIONS = 4
"""How often the rate has to have been low, and high, at least: by chance, all four times with a high rate are slower
than all four with a low one once in seventy times."""

LEAST_REQUESTS = 20
"""The fewest requests of an observation."""

LEAST_GROWTH = 1.2
"""The least ratio of the high rate to the low one."""

LEAST_SLOWER = 2.0
"""The least ratio of the time at a high rate to that at a low one: half of the time is spent waiting. Of the additional
requests, the backend then completes less than half of what one with room to spare would."""

SLOWER_NOW, WAITING_NOW = 1.5, 1.0
"""In a window, such a backend is saturated if its time is this multiple of that at a low rate, and so many requests
wait in it on average. A single server with random arrivals has one that waits at 62 % of its limit."""

LEAST_SIGNIFICANCE = 3.0
"""The least t-statistic (B. L. Welch, Biometrika 34, 1947) of the difference between the times."""

MOST_UNKNOWN = 0.1
"""The largest part of the threads' time of which it may be unknown what they waited for, as at first it is."""

ALL = ""
"""Stands for all backends together, in the place of a name."""


class Saturation(Struct, frozen=True):
    """A saturated backend at a low and at a high rate: requests in it at once, and their time; requests per second."""

    name: str
    """Of the backend; `ALL` if it has none."""
    few: float
    few_seconds: float
    low: float
    many: float
    many_seconds: float
    high: float
    """If most threads wait for the backend then, close to what it completes at most."""


class _Slice(NamedTuple):
    """Requests completed in so many seconds, and the thread seconds that were spent waiting for the backend."""

    seconds: float
    requests: float
    waiting: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def at_once(self) -> float:
        return self.waiting / self.seconds

    @property
    def time(self) -> float:
        """Seconds of a request in the backend."""
        return self.waiting / self.requests


class BackendSlices:
    """The slices of the last hour."""

    def __init__(self) -> None:
        self._seconds, self._requests = array("f"), array("f")
        self._waiting: dict[str, array[float]] = {}
        self._judged: dict[str, tuple[int, Saturation | None]] = {}
        self._added = 0

    def add(self, window: Window) -> None:
        """Add the next slice. One with a reload, or that is not known well, is left out."""
        waits = window.waits
        if waits is None or window.reloads or window.observed_seconds < window.seconds / 2 or not window.seconds:
            return
        if waits.seconds.get("unknown", 0.0) > MOST_UNKNOWN * fsum(waits.seconds.values()):
            return
        waiting = {ALL: waits.seconds.get("backend", 0.0), **waits.backends}
        requests = sum([worker.requests for worker in window.workers])
        if not requests and not any(waiting.values()):
            return  # a server at rest has many of these
        if waiting.keys() != self._waiting.keys():
            self._seconds, self._requests = array("f"), array("f")
            self._waiting = {name: array("f") for name in waiting}
            self._judged = {}
        self._seconds.append(window.seconds)
        self._requests.append(requests)
        for name, seconds in waiting.items():
            self._waiting[name].append(seconds * window.seconds / waits.observed_seconds)
        self._added += 1
        if len(self._seconds) > HISTORY_SECONDS / SLICE_SECONDS:
            for column in (self._seconds, self._requests, *self._waiting.values()):
                del column[: len(column) // 10]

    def list_rows(self) -> list[tuple[float, ...]]:
        """Return the seconds, the requests and the waiting of each slice, of all backends together."""
        return list(zip(self._seconds, self._requests, self._waiting.get(ALL, ()), strict=False))

    def restore(self, rows: Sequence[tuple[float, float, float]]) -> BackendSlices:
        """Take such rows in the place of those that there are, and return this object."""
        self._seconds, self._requests, waiting = (array("f", [row[place] for row in rows]) for place in range(3))
        self._waiting, self._judged = {ALL: waiting}, {}
        return self

    def find_saturation(self, name: str = ALL) -> Saturation | None:
        """What shows that this backend was saturated in the last hour; None if unknown."""
        at, found = self._judged.get(name, (-inf, None))
        if self._added - at > len(self._seconds) / 100:
            slices = map(_Slice, self._seconds, self._requests, self._waiting.get(name, ()))
            found = judge_slices(name, list(slices))
            self._judged[name] = self._added, found
        return found


def find_saturated(waits: WaitFigures | None, slices: BackendSlices | None) -> Saturation | None:
    """What shows that the backend for which the threads mostly wait is saturated in a window, if anything."""
    if waits is None or slices is None or waits.share("backend") < MOSTLY:
        return None
    least = MOSTLY * waits.threads.get("backend", 0.0)
    named = next((each for each in waits.backends if each.threads and each.threads >= least), None)
    found = slices.find_saturation(named.name if named else ALL)
    each = named or next(row for row in waits.states if row.state == "backend")
    seconds = each.per_request or 0.0
    if found is None or seconds < SLOWER_NOW * found.few_seconds:
        return None
    return found if each.threads * (1 - found.few_seconds / seconds) >= WAITING_NOW else None


def judge_slices(name: str, slices: Sequence[_Slice]) -> Saturation | None:
    """What slices in the order of time show of a backend; None if that is not enough."""
    # Seconds of a request in the backend in the quarter of the slices with most requests in it.
    fullest = _sum(sorted(slices, key=lambda each: each.at_once)[-max(1, len(slices) // 4) :])
    slices = list(_join(slices, LEAST_LENGTH * (ratio(fullest.waiting, fullest.requests) or 0.0)))
    if len(slices) < LEAST_SLICES:
        return None
    low, high = _observe(slices)
    few, many = _sum(low), _sum(high)
    if min(len(low), len(high)) < LEAST_OBSERVATIONS or not few.waiting or not few.requests:
        return None
    if many.rate < LEAST_GROWTH * few.rate or many.time < LEAST_SLOWER * few.time:
        return None
    times, others = ([each.time for each in side] for side in (low, high))
    error = sqrt(variance(times) / len(times) + variance(others) / len(others))
    if error and (fmean(others) - fmean(times)) / error < LEAST_SIGNIFICANCE:
        return None
    return Saturation(name, few.at_once, few.time, few.rate, many.at_once, many.time, many.rate)


def _sum(slices: Sequence[_Slice]) -> _Slice:
    return _Slice(*[fsum(column) for column in zip(*slices, strict=True)]) if slices else _Slice(0.0, 0.0, 0.0)


def _join(slices: Sequence[_Slice], seconds: float) -> Iterator[_Slice]:
    parts: list[_Slice] = []
    for each in slices:
        parts.append(each)
        if fsum(part.seconds for part in parts) >= seconds:
            yield _sum(parts)
            parts = []


def _observe(slices: Sequence[_Slice]) -> tuple[list[_Slice], list[_Slice]]:
    """The observations with a low rate, and with a high one: neighbours are one."""
    rates = sorted(each.rate for each in slices)
    tenth = max(1, len(rates) // 10)
    least, most = fsum(rates[:tenth]) / tenth, fsum(rates[-tenth:]) / tenth
    margin = APART * (most - least)
    found: tuple[list[_Slice], list[_Slice]] = [], []
    sides = [each for each in slices if not least + margin < each.rate < most - margin]
    for is_high, rows in groupby(sides, key=lambda each: each.rate > least + margin):
        together = _sum(list(rows))
        if together.requests >= LEAST_REQUESTS:
            found[is_high].append(together)
    return found
