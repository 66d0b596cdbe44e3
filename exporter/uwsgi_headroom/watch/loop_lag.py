"""Measures the lag of the event loop: how much longer a sleep takes than requested."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

REMEMBERED_SECONDS = 30.0
"""A lag is remembered for this long at least and twice as long at most: longer than most scrape intervals."""


class LoopLag:
    """The largest lag of the last seconds, measured at no extra cost by the samplers' sleeps."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._period = 0.0
        self._largest = self._largest_before = 0.0

    async def sleep(self, seconds: float) -> None:
        """Sleep, and note the lag."""
        began = self._monotonic()
        await asyncio.sleep(seconds)
        self.note(self._monotonic() - began - seconds)

    def note(self, seconds: float) -> None:
        """Note one lag."""
        self._turn()
        self._largest = max(self._largest, seconds)

    @property
    def largest(self) -> float:
        """The largest lag in seconds; 0 without any lag or any sleep."""
        self._turn()
        return max(self._largest, self._largest_before)

    def _turn(self) -> None:
        """Forget lags of two periods ago."""
        period = self._monotonic() // REMEMBERED_SECONDS
        if period != self._period:
            self._largest_before = self._largest if period == self._period + 1 else 0.0
            self._largest, self._period = 0.0, period
