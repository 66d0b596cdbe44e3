"""A clock that a test moves."""

from uwsgi_headroom.clock import Clock


class MovableClock:
    """A clock to set: pass `clock` to a reader or a fleet, and advance it with `move`."""

    def __init__(self) -> None:
        self._now = 1000.0
        self.clock = Clock(monotonic=lambda: self._now, epoch=lambda: 1.8e9 + self._now)

    def move(self, seconds: float) -> None:
        """Advances the clock."""
        self._now += seconds
