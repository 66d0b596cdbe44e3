"""Keeps an hour of what has names that come and go: the busy threads of each route, and what the threads waited for
outside of the server, backends and name servers by address."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Mapping
from itertools import chain, repeat

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.hour import ROW_SECONDS
from uwsgi_headroom.history.totals import RouteTotals
from uwsgi_headroom.history.window import RouteWindow, Window
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Destination
from uwsgi_headroom.routes import OTHER_ROUTE, ServedRoutes
from uwsgi_headroom.stats import Snapshot


def add_route_time(totals: RouteTotals | None, before: Reading, reading: Reading, step: float) -> RouteTotals | None:
    """Add the `step` seconds between two samples; 0 if the time between them is a gap. Returns the totals, which are
    None until routes are first known."""
    now = reading.routes
    if now is None:
        return totals
    totals = totals or RouteTotals()
    _note_names(totals, now)
    if before.routes and step:
        totals.observed_seconds += step
        for each, served in ((before, before.routes), (reading, now)):
            for number, threads in _count_by_route(each, served).items():
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
    """An hour of the routes of one server. Times are monotonic seconds.

    The hour is a store of its own beside `hour`, because routes come and go while the shape of a server does not: a row
    has as many numbers as there were routes then. So it costs nothing while routes are off, and 24 bytes and 8 for each
    route a second while they are on.
    """

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
        first = _row_at(self._times, self._rows, window.start)
        last = _pack(self._latest)
        if window.until < self._latest_at:
            last = _row_at(self._times, self._rows, window.until)
        observed = last[0] - first[0]
        if observed <= 0:
            return None
        return RouteWindow(observed, _compare(self._latest, first[1:], last[1:]))

    @property
    def names(self) -> tuple[str, ...]:
        """The routes, without free numbers; empty before the first sample."""
        return tuple(filter(None, self._latest.names))


def _row_at(times: deque[float], rows: deque[array[float]], at: float) -> array[float]:
    return rows[max(0, bisect_right(times, at) - 1)]


def _pack(totals: RouteTotals) -> array[float]:
    return array("d", (totals.observed_seconds, *totals.seconds))


def _compare(latest: RouteTotals, first: array[float], last: array[float]) -> dict[str, float]:
    """The growth of each route between two rows; of a number without a route, it is growth of `other`."""
    grown = dict.fromkeys(filter(None, latest.names), 0.0)
    starts = chain(first, repeat(0.0))
    for name, base, start, end in zip(latest.names, latest.bases, starts, last, strict=False):
        own = bool(name) * (end - min(max(start, base), end))
        grown[name or OTHER_ROUTE] += own
        grown[OTHER_ROUTE] += end - start - own
    return grown


DESTINATION_SECONDS = 5.0

MOST_DESTINATIONS = 64
"""More are added up as one without an address: an application may ask any number of servers."""

OTHERS = Destination("backend")


class DestinationHour:
    """An hour of the destinations of one server. Times are monotonic seconds.

    It is a store of its own beside `hour`, because addresses come and go while the shape of a server does not. So it
    costs nothing until a thread waits for one, and then 100 bytes and 8 for each address every five seconds.
    """

    def __init__(self) -> None:
        self._places: dict[Destination, int] = {OTHERS: 0}
        self._totals = array("d", [0.0])
        self._times: deque[float] = deque(maxlen=int(HISTORY_SECONDS / DESTINATION_SECONDS))
        self._rows: deque[array[float]] = deque(maxlen=int(HISTORY_SECONDS / DESTINATION_SECONDS))
        self._before: tuple[float, Mapping[Destination, float]] | None = None
        self._latest_at = float("-inf")

    def add(self, reading: Reading, longest_step: float) -> None:
        """Add a sample. Between two, the number of threads changes linearly, but in no more than `longest_step`."""
        waits = reading.host.waits
        before, now = self._before, waits.destinations if waits and not waits.off else None
        self._before = None if now is None else (reading.at, now)
        if now is None or before is None or not (now or before[1]):
            return
        half = (reading.at - before[0]) / 2
        if not 0 < 2 * half <= longest_step:
            return
        if not self._times or before[0] - self._times[-1] >= DESTINATION_SECONDS:
            self._times.append(before[0])
            self._rows.append(self._totals[:])
        for levels in (before[1], now):
            for destination, threads in levels.items():
                self._totals[self._place(destination)] += half * threads
        self._latest_at = reading.at

    def of(self, window: Window) -> dict[Destination, float]:
        """The thread seconds of each destination in a window, to within five seconds."""
        if not self._times:
            return {}
        first = self._rows[min(bisect_left(self._times, window.start), len(self._rows) - 1)]
        last = self._totals if window.until >= self._latest_at else _row_at(self._times, self._rows, window.until)
        grown = {
            destination: last[place] - (first[place] if place < len(first) else 0.0)
            for destination, place in self._places.items()
            if place < len(last)
        }
        return {destination: seconds for destination, seconds in grown.items() if seconds > 0}

    def _place(self, destination: Destination) -> int:
        place = self._places.get(destination)
        if place is not None:
            return place
        if len(self._places) >= MOST_DESTINATIONS and not self._forget():
            return 0
        place = self._places[destination] = len(self._totals)
        self._totals.append(0.0)
        return place

    def _forget(self) -> bool:
        """Forget the destinations for which no thread has waited for an hour; returns whether there were any."""
        first = self._rows[0]
        kept = [
            (destination, place)
            for destination, place in self._places.items()
            if place == 0 or place >= len(first) or self._totals[place] > first[place]
        ]
        if len(kept) == len(self._places):
            return False
        numbers = [place for _, place in kept]
        for number, row in enumerate(self._rows):
            self._rows[number] = array("d", [row[place] for place in numbers if place < len(row)])
        self._totals = array("d", [self._totals[place] for place in numbers])
        self._places = {destination: number for number, (destination, _) in enumerate(kept)}
        return True
