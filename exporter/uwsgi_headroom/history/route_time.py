"""Integrates the busy threads of each route, linearly between two samples, and keeps an hour of them.

The hour is a store of its own beside `hour`, because routes come and go while the shape of a server does not: a row has
as many numbers as there were routes then. So it costs nothing while routes are off, and 24 bytes and 8 for each route a
second while they are on.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter, deque

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.hour import ROW_SECONDS
from uwsgi_headroom.history.totals import RouteTotals
from uwsgi_headroom.history.window import RouteWindow, Window
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.routes.book import OTHER_ROUTE, ServedRoutes
from uwsgi_headroom.stats import Snapshot


def add_route_time(
    totals: RouteTotals | None, before: Reading | None, reading: Reading, step: float
) -> RouteTotals | None:
    """Add the `step` seconds between two samples; 0 if the time between them is a gap. Returns the totals, which are
    None until routes are first known."""
    now = reading.routes
    if now is None:
        return totals
    totals = totals or RouteTotals()
    _note_names(totals, now)
    then = before.routes if before else None
    if before and then and step:
        totals.observed_seconds += step
        for levels, served in ((_count_by_route(before, then), then), (_count_by_route(reading, now), now)):
            for number, threads in levels.items():
                is_same = served.generations[number] == now.generations[number] and now.names[number]
                totals.seconds[number if is_same else 0] += step / 2 * threads
    return totals


def _note_names(totals: RouteTotals, now: ServedRoutes) -> None:
    if now.names is totals.names:
        return
    new = len(now.names) - len(totals.seconds)
    totals.seconds += [0.0] * new
    totals.bases += [0.0] * new
    for number, generation in enumerate(now.generations):
        if number >= len(totals.generations) or totals.generations[number] != generation:
            totals.bases[number] = totals.seconds[number]
    totals.names, totals.generations = now.names, now.generations


def _count_by_route(reading: Reading, routes: ServedRoutes) -> Counter[int]:
    """The busy threads of each route at one sample, by the route's number. A process that is gone has none."""
    counts: Counter[int] = Counter()
    if isinstance(reading.snapshot, Snapshot):
        for worker in reading.snapshot.workers:
            numbers = routes.numbers.get(worker.worker_id)
            if numbers and not reading.process_is_missing(worker):
                counts.update(numbers.values())
    return counts


class RouteHour:
    """An hour of the routes of one server. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=HISTORY_SECONDS)
        self._rows: deque[array[float]] = deque(maxlen=HISTORY_SECONDS)
        self._latest_at = 0.0
        self._latest = RouteTotals()

    def add(self, at: float, totals: RouteTotals | None) -> None:
        """Record the totals at the time `at`, as `History.add` does."""
        if totals is None:
            return
        self._latest_at, self._latest = at, totals
        if not self._times or at - self._times[-1] >= ROW_SECONDS:
            self._times.append(at)
            self._rows.append(_pack(totals))

    def of(self, window: Window) -> RouteWindow | None:
        """The routes in a window, to within a second; None if they are off or were not sampled."""
        if not self._times:
            return None
        first = self._row_at(window.until - window.seconds)
        last = _pack(self._latest) if window.until >= self._latest_at else self._row_at(window.until)
        observed = last[0] - first[0]
        if observed <= 0:
            return None
        return RouteWindow(observed, _compare(self._latest, first[1:], last[1:]))

    @property
    def names(self) -> tuple[str, ...]:
        """The routes, without free numbers; empty before the first sample."""
        return tuple(filter(None, self._latest.names))

    def _row_at(self, at: float) -> array[float]:
        """The last row at or before a time, or the first one."""
        return self._rows[max(0, bisect_right(self._times, at) - 1)]


def _pack(totals: RouteTotals) -> array[float]:
    return array("d", (totals.observed_seconds, *totals.seconds))


def _compare(latest: RouteTotals, first: array[float], last: array[float]) -> dict[str, float]:
    """The growth of each route between two rows; of a number without a route, it is growth of `other`."""
    grown = dict.fromkeys(filter(None, latest.names), 0.0)
    for number, end in enumerate(last):
        start = first[number] if number < len(first) else 0.0
        name = latest.names[number]
        base = min(max(start, latest.bases[number]), end) if name else end
        grown[OTHER_ROUTE] += base - start
        if name:
            grown[name] += end - base
    return grown
