"""A clock that a test moves."""

from __future__ import annotations

from uwsgi_headroom.clock import Clock


class MovableClock:
    """The hands of a clock: `clock` is what a reader or a fleet takes, `move` lets time go by."""

    def __init__(self) -> None:
        self._now = 1000.0
        self.clock = Clock(monotonic=lambda: self._now, epoch=lambda: 1.8e9 + self._now)

    def move(self, seconds: float) -> None:
        """Let this many seconds pass."""
        self._now += seconds
