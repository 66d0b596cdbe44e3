"""Lets a long computation take turns with the other tasks of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

SHORTEST_SECONDS = 0.01
"""The length of a turn while the other tasks have little to do: reads in flight have a deadline."""

LONGEST_SECONDS = 0.05


class Turns:
    """The turns of one computation. Each is as long as the turn of all others before it, within bounds: so a scrape of
    a thousand servers takes twice its own time at most, however much sampling there is to do."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._seconds = SHORTEST_SECONDS

    async def pause_if_due(self) -> None:
        """End the turn if it was long enough, and wait for the next one."""
        now = self._monotonic()
        if now - self._began < self._seconds:
            return
        await asyncio.sleep(0)
        self._began = self._monotonic()
        self._seconds = min(LONGEST_SECONDS, max(SHORTEST_SECONDS, self._began - now))
