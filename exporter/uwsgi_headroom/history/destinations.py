"""Keeps an hour of what the threads of one server waited for outside of it: backends and name servers, by address.

It is a store of its own beside `hour`, because addresses come and go while the shape of a server does not. So it costs
nothing until a thread is seen to wait for one, and then 100 bytes and 8 for each address every five seconds in which
one does.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping

from uwsgi_headroom.config.defaults import HISTORY_SECONDS
from uwsgi_headroom.history.window import Window
from uwsgi_headroom.reading import Reading
from uwsgi_headroom.record import Destination

ROW_SECONDS = 5.0

MOST_DESTINATIONS = 64
"""More are added up as one without an address: an application may ask any number of servers."""

OTHERS = Destination("backend")


class DestinationHour:
    """An hour of the destinations of one server. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._places: dict[Destination, int] = {OTHERS: 0}
        self._totals = array("d", [0.0])
        self._times: deque[float] = deque(maxlen=int(HISTORY_SECONDS / ROW_SECONDS))
        self._rows: deque[array[float]] = deque(maxlen=int(HISTORY_SECONDS / ROW_SECONDS))
        self._before: tuple[float, Mapping[Destination, float]] | None = None
        self._latest_at = float("-inf")

    def add(self, reading: Reading, longest_step: float) -> None:
        """Add a sample. Between two samples the number of threads changes linearly, unless they are further apart than
        `longest_step`."""
        waits = reading.host.waits
        before, now = self._before, waits.destinations if waits and not waits.off else None
        self._before = None if now is None else (reading.at, now)
        if now is None or before is None or not (now or before[1]):
            return
        half = (reading.at - before[0]) / 2
        if not 0 < 2 * half <= longest_step:
            return
        if not self._times or before[0] - self._times[-1] >= ROW_SECONDS:
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
        begin = window.until - window.seconds
        first = self._rows[min(bisect_left(self._times, begin), len(self._rows) - 1)]
        last = self._totals if window.until >= self._latest_at else self._row_at(window.until)
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

    def _row_at(self, at: float) -> array[float]:
        """The last row at or before a time, or the first one."""
        return self._rows[max(0, bisect_right(self._times, at) - 1)]
