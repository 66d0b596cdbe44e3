"""Keeps an hour of the busy threads of each route, one row per second, and gives windows of it.

It is a store of its own beside `hour`, because routes come and go while the shape of a server does not: a row has as
many numbers as there were routes then. So it costs nothing while routes are off, and 24 bytes and 8 for each route a
second while they are on.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.route_totals import RouteTotals
from uwsgi_headroom.history.row_blocks import ROW_SECONDS
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.routes.book import OTHER_ROUTE


@dataclass(frozen=True, slots=True)
class RouteWindow:
    """Busy thread seconds by route in a window, of which observed_seconds were sampled. Time of routes that have been
    forgotten since counts as `other`."""

    observed_seconds: float
    seconds: Mapping[str, float]


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
